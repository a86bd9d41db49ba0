"""`check_schema` compares the models with the template too: what an operator deploys is what the processes expect."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from config.wiring.commands import TABLES
from foundation.commands.schema import TEMPLATE
from foundation.stores.dynamodb.template import template_drift
from tests.templates import data_template


def drift_of(template: dict[str, Any], folder: Path) -> list[str]:
    path = folder / "data.yaml"
    path.write_text(yaml.safe_dump(template))
    return list(template_drift(path, TABLES))


def test_the_template_agrees_with_the_models() -> None:
    assert list(template_drift(Path(settings.BASE_DIR) / TEMPLATE, TABLES)) == []


def test_where_there_is_none_nothing_is_compared(tmp_path: Path) -> None:
    assert list(template_drift(tmp_path / "data.yaml", TABLES)) == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"TimeToLiveSpecification": {"AttributeName": "ttl", "Enabled": False}}, "ttl attribute"),
        ({"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": False}}, "point-in-time recovery"),
        ({"GlobalSecondaryIndexes": []}, "index user_sessions-index: missing"),
        ({"KeySchema": [{"AttributeName": "user_id", "KeyType": "HASH"}]}, "keys"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_that_differs_is_told(changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    template = data_template()
    template["Resources"]["SessionsTable"]["Properties"] |= changed
    [line] = drift_of(template, tmp_path)
    assert line.startswith(f"data.yaml: sessions: {told}")


def test_tables_that_are_missing_or_too_many_are_told(tmp_path: Path) -> None:
    template = data_template()
    template["Resources"]["SessionsTable"]["Properties"]["TableName"] = {"Fn::Sub": "${TablePrefix}meetings"}
    assert drift_of(template, tmp_path) == [
        "data.yaml: sessions: the table is missing",
        "data.yaml: meetings: not among the models",
    ]
