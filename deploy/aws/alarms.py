"""Alarms for each table, and a dashboard of the same metrics.

Consumed capacity over 80 % of what is provisioned (on demand: of the account's quota for a table), any throttled
request, and a p99 latency over 100 ms. A chat with more messages than fit well in one partition has an alarm too.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deploy.aws.names import Resource, Resources, logical, ref, sub, table_id
from deploy.aws.tables import is_provisioned
from foundation.stores.dynamodb.table import Table, index_settings

PERIOD = 60
CAPACITY_SHARE = 80
LATENCY_MS = 100
ON_DEMAND_QUOTA = 40_000
"""Units a second that AWS grants a table on demand by default."""
LARGE_CHAT_MESSAGES = 16_000_000
"""80 % of the messages that fill 10 GB."""

Operations = Mapping[str, Sequence[str]]
"""The operations that Parley uses on each table."""


def alarms(models: Sequence[type[Table]], operations: Operations) -> Resources:
    resources: Resources = {
        "AlarmTopic": _topic(),
        "AlarmEmailSubscription": {
            "Type": "AWS::SNS::Subscription",
            "Condition": "HasAlarmEmail",
            "Properties": {"Protocol": "email", "TopicArn": ref("AlarmTopic"), "Endpoint": ref("AlarmEmail")},
        },
        "LargeChatAlarm": _large_chat(),
    }
    for model in models:
        resources |= _capacity(model) | _throttling(model, operations) | _latency(model, operations)
    return resources


def _topic() -> Resource:
    """Without `alias/aws/sns`: the policy of that key does not let CloudWatch use it, and no alarm would arrive."""
    return {"Type": "AWS::SNS::Topic"}


def _alarm(description: str, metrics: list[Resource], threshold: float, *, periods: int = 1) -> Resource:
    return {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmDescription": description,
            "Metrics": metrics,
            "ComparisonOperator": "GreaterThanThreshold",
            "Threshold": threshold,
            "EvaluationPeriods": periods,
            "TreatMissingData": "notBreaching",
            "AlarmActions": [ref("AlarmTopic")],
            "OKActions": [ref("AlarmTopic")],
        },
    }


def _expression(expression: str, label: str) -> Resource:
    return {"Id": "result", "Expression": expression, "Label": label, "ReturnData": True}


def _metric(name: str, metric: str, stat: str, dimensions: Mapping[str, Any]) -> Resource:
    return {
        "Id": name,
        "ReturnData": False,
        "MetricStat": {
            "Metric": {
                "Namespace": "AWS/DynamoDB",
                "MetricName": metric,
                "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
            },
            "Period": PERIOD,
            "Stat": stat,
        },
    }


def _capacity(model: type[Table]) -> Resources:
    table = table_id(model.Meta.table_name)
    places: list[tuple[str, dict[str, Any]]] = [(table, {"TableName": ref(table)})]
    for settings in index_settings(model):
        index = settings.index_name
        places.append((f"{table}{logical(index)}", {"TableName": ref(table), "GlobalSecondaryIndexName": index}))
    resources: Resources = {}
    for name, dimensions in places:
        for direction in ("Read", "Write"):
            consumed = _metric("consumed", f"Consumed{direction}CapacityUnits", "Sum", dimensions)
            if is_provisioned(model):
                provisioned = _metric("provisioned", f"Provisioned{direction}CapacityUnits", "Average", dimensions)
                metrics = [consumed, provisioned, _expression(f"100 * consumed / {PERIOD} / provisioned", "percent")]
                of = "provisioned units"
            else:
                metrics = [consumed, _expression(f"100 * consumed / {PERIOD} / {ON_DEMAND_QUOTA}", "percent")]
                of = "the quota of a table on demand"
            description = f"{name}: {direction.lower()}s use more than {CAPACITY_SHARE} % of {of}"
            resources[f"{name}{direction}CapacityAlarm"] = _alarm(description, metrics, CAPACITY_SHARE, periods=5)
    return resources


def _by_operation(model: type[Table], operations: Operations, metric: str, stat: str) -> tuple[list[Resource], str]:
    """A metric of each operation on the table, and their ids for an expression."""
    table = table_id(model.Meta.table_name)
    used = operations[model.Meta.table_name]
    metrics = [
        _metric(f"m{number}", metric, stat, {"TableName": ref(table), "Operation": operation})
        for number, operation in enumerate(used)
    ]
    return metrics, ", ".join(f"FILL(m{number}, 0)" for number in range(len(used)))


def _throttling(model: type[Table], operations: Operations) -> Resources:
    table = table_id(model.Meta.table_name)
    metrics, ids = _by_operation(model, operations, "ThrottledRequests", "Sum")
    description = f"{table}: requests are throttled"
    return {f"{table}ThrottlingAlarm": _alarm(description, [*metrics, _expression(f"SUM([{ids}])", "throttled")], 0)}


def _latency(model: type[Table], operations: Operations) -> Resources:
    table = table_id(model.Meta.table_name)
    metrics, ids = _by_operation(model, operations, "SuccessfulRequestLatency", "p99")
    description = f"{table}: p99 of an operation is over {LATENCY_MS} ms"
    worst = _expression(f"MAX([{ids}])", "p99 of the slowest operation, ms")
    return {f"{table}LatencyAlarm": _alarm(description, [*metrics, worst], LATENCY_MS, periods=5)}


def _large_chat() -> Resource:
    """DynamoDB has no metric of a collection's size: `web` logs large chats, and `services.yaml` counts the lines."""
    return {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmDescription": f"A chat has more than {LARGE_CHAT_MESSAGES:,} messages, 80 % of 10 GB: archive it",
            "Namespace": "Parley",
            "MetricName": "LargeChats",
            "Statistic": "Sum",
            "Period": 3600,
            "EvaluationPeriods": 1,
            "Threshold": 0,
            "ComparisonOperator": "GreaterThanThreshold",
            "TreatMissingData": "notBreaching",
            "AlarmActions": [ref("AlarmTopic")],
        },
    }


def dashboard(models: Sequence[type[Table]], operations: Operations) -> Resources:
    """One row a table: consumed units, throttled requests, p99."""
    widgets = [
        widget
        for row, model in enumerate(models)
        for widget in _row(model.Meta.table_name, row, operations[model.Meta.table_name])
    ]
    body = json.dumps({"widgets": widgets})
    return {
        "Dashboard": {
            "Type": "AWS::CloudWatch::Dashboard",
            "Properties": {"DashboardName": sub("${TablePrefix}parley-tables"), "DashboardBody": sub(body)},
        }
    }


def _row(table: str, row: int, operations: Sequence[str]) -> list[dict[str, Any]]:
    name = "${TablePrefix}" + table
    by_table = [
        ["AWS/DynamoDB", f"Consumed{direction}CapacityUnits", "TableName", name, {"stat": "Sum"}]
        for direction in ("Read", "Write")
    ]

    def by_operation(metric: str, stat: str) -> list[list[Any]]:
        return [
            ["AWS/DynamoDB", metric, "TableName", name, "Operation", operation, {"stat": stat}]
            for operation in operations
        ]

    columns = [
        (f"{table}: consumed units", by_table),
        (f"{table}: throttled requests", by_operation("ThrottledRequests", "Sum")),
        (f"{table}: p99 latency, ms", by_operation("SuccessfulRequestLatency", "p99")),
    ]
    return [
        {
            "type": "metric",
            "x": 8 * column,
            "y": 6 * row,
            "width": 8,
            "height": 6,
            "properties": {"title": title, "region": "${AWS::Region}", "period": PERIOD, "metrics": metrics},
        }
        for column, (title, metrics) in enumerate(columns)
    ]
