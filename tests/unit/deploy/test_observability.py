"""Alerts, recording rules and the dashboard use metrics that exist, and every alert has a runbook."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.management.commands.metrics import Command as MetricsCommand
from delivery.gateway.closing import Close
from foundation.kernel.errors import ParleyError
from foundation.stores.dynamodb.wire import EngineFailure, _named
from foundation.stores.errors import ConditionFailed, TransactionCancelled, TransactionConflict
from messaging.services.committer import LARGE_CHAT

METRICS = MetricsCommand()
ROOT = Path(__file__).parents[3]
PROMETHEUS = ROOT / "deploy/prometheus"
ALERTS: list[dict[str, Any]] = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"][0]["rules"]
RECORDED: list[dict[str, Any]] = yaml.safe_load((PROMETHEUS / "recording.yaml").read_text())["groups"][0]["rules"]
CASES: list[dict[str, Any]] = yaml.safe_load((PROMETHEUS / "tests.yaml").read_text())["tests"]
JOBS = [job["job_name"] for job in yaml.safe_load((PROMETHEUS / "prometheus.yaml").read_text())["scrape_configs"]]
PANELS: list[dict[str, Any]] = json.loads((ROOT / "deploy/grafana/parley.json").read_text())["panels"]


def used(expression: str) -> set[str]:
    """The metrics of an expression, without the suffixes of a histogram's series."""
    names = re.findall(r"\bparley[_:][a-z0-9_:]+", expression)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


def _codes_of_dynamodb() -> list[str]:
    """DynamoDB's names of failures that its client knows."""
    source = (ROOT / "foundation/stores/dynamodb/wire.py").read_text()
    return sorted(set(re.findall(r'"([A-Z]\w+(?:Exception|Exceeded|Error|Failure|Unavailable))"', source)))


def existing() -> set[str]:
    return {*METRICS.declared(), *(rule["record"] for rule in RECORDED)}


class TestMetrics:
    @pytest.mark.parametrize("rule", [*ALERTS, *RECORDED], ids=lambda rule: rule.get("alert") or rule["record"])
    def test_a_rule_uses_metrics_that_exist(self, rule: dict[str, Any]) -> None:
        assert used(rule["expr"]) <= existing()

    @pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
    def test_a_panel_uses_metrics_that_exist(self, panel: dict[str, Any]) -> None:
        for target in panel["targets"]:
            assert used(target["expr"])
            assert used(target["expr"]) <= existing()

    def test_every_metric_of_an_alert_is_on_a_panel(self) -> None:
        """Whoever is woken looks there."""
        recorded = {rule["record"]: used(rule["expr"]) for rule in RECORDED}
        shown = {name for panel in PANELS for target in panel["targets"] for name in used(target["expr"])}
        shown |= {name for each in shown for name in recorded.get(each, ())}
        alerted = {name for alert in ALERTS for name in used(alert["expr"])}
        assert {name for each in alerted for name in recorded.get(each, {each})} <= shown

    def test_every_metric_of_the_code_is_declared_when_the_page_is_made(self) -> None:
        named = set(re.findall(r'"(parley_[a-z_]+)"', _sources()))
        assert named <= {*METRICS.declared()} | {name.removesuffix("_total") for name in METRICS.declared()}

    def test_the_page_lists_what_the_code_declares(self) -> None:
        assert (ROOT / "docs/metrics.md").read_text() == METRICS.page(), "out of date: manage.py metrics --write"


class TestAlerts:
    @pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
    def test_an_alert_names_a_runbook_that_exists(self, alert: dict[str, Any]) -> None:
        assert (ROOT / alert["annotations"]["runbook"]).is_file()

    def test_operations_says_to_wake_somebody_for_each_critical_alert_and_no_other(self) -> None:
        [line] = re.findall(r"^- Wake somebody for.+$", (ROOT / "docs/operations.md").read_text(), re.MULTILINE)
        critical = [alert["alert"] for alert in ALERTS if alert["labels"]["severity"] == "critical"]
        assert sorted(re.findall(r"`(\w+)`", line)) == sorted(critical)

    @pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
    def test_a_test_of_the_rules_makes_it_fire(self, alert: dict[str, Any]) -> None:
        expected = [check for case in CASES for check in case["alert_rule_test"] if check["exp_alerts"]]
        assert alert["alert"] in {check["alertname"] for check in expected}

    @pytest.mark.parametrize("job", JOBS)
    def test_each_job_is_missed_when_prometheus_finds_none_of_its_processes(self, job: str) -> None:
        absent = re.compile(rf"absent\(up\{{job=\"{job}\"\}}")
        assert [alert["alert"] for alert in ALERTS if absent.search(alert["expr"])]

    def test_a_chat_is_large_where_the_code_says_so(self) -> None:
        [alert] = [alert for alert in ALERTS if alert["alert"] == "ChatIsLarge"]
        assert f"{LARGE_CHAT:,}" in alert["annotations"]["summary"]
        assert f"{LARGE_CHAT:,}" in METRICS.declared()["parley_large_chats_total"].documentation


class TestLabels:
    @pytest.mark.parametrize(
        "rule", [rule for rule in (*RECORDED, *ALERTS) if "{" in rule["expr"]], ids=lambda rule: str(rule["expr"])[:60]
    )
    def test_each_value_that_a_rule_names_is_one_that_the_code_gives(self, rule: dict[str, Any]) -> None:
        for metric, label, patterns in re.findall(r'(\w+)\{(\w+)[=!]~?"([^"]+)"', rule["expr"]):
            for pattern in patterns.split("|"):
                assert [value for value in values(metric, label) if re.fullmatch(pattern, value)], (metric, pattern)

    @pytest.mark.parametrize("code", ["AccessDeniedException", "Unknown", "ValidationException", *_codes_of_dynamodb()])
    def test_a_failed_request_is_what_is_neither_a_condition_nor_a_conflict(self, code: str) -> None:
        named = _named(EngineFailure(400, {"__type": code}), "Query")
        is_expected = isinstance(named, ConditionFailed | TransactionCancelled | TransactionConflict)
        assert bool(re.fullmatch(_expected_outcomes(), code)) is is_expected

    def test_a_request_without_an_answer_is_a_failed_one(self) -> None:
        assert not re.fullmatch(_expected_outcomes(), "unavailable")
        assert re.fullmatch(_expected_outcomes(), "ok")


def values(metric: str, label: str) -> set[str]:
    """What a label may be, as the code says it."""
    match metric, label:
        case _, "job":
            return set(JOBS)
        case "parley_drafts_failed_total", "code":
            return {error.code for error in _subclasses(ParleyError)}
        case "parley_dynamodb_requests_total", "outcome":
            return {"ok", "cancelled", "unavailable", *_codes_of_dynamodb()}
        case "parley_commit_retries_total", "reason":
            source = (ROOT / "messaging/services/failed_batches.py").read_text()
            return set(re.findall(r'(?:FailedBatch|contention)\(batch, "(\w+)"', source))
        case "parley_gateway_closes_total", "reason":
            return {close.name.lower() for close in Close}
        case "parley_sms_total", "outcome":
            return set(re.findall(r'SMS_MESSAGES\.labels\("(\w+)"\)', _sources()))
    raise AssertionError(f"say here what {label} of {metric} may be")


def _subclasses(kind: type[ParleyError]) -> list[type[ParleyError]]:
    return [kind, *(each for child in kind.__subclasses__() for each in _subclasses(child))]


def _expected_outcomes() -> str:
    [rule] = [rule for rule in RECORDED if rule["record"] == "parley:dynamodb_requests_failed:share5m"]
    [expected] = re.findall(r'outcome!~"([^"]+)"', rule["expr"])
    return str(expected)


def _sources() -> str:
    apps = ("foundation", "accounts", "chats", "messaging", "delivery", "staff")
    return "\n".join(path.read_text() for app in apps for path in (ROOT / app).rglob("*.py"))
