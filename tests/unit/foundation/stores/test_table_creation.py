"""Tables that are created slowly, as on AWS: no emulator shows these states."""

from types import SimpleNamespace
from typing import Any

import pytest

from accounts.models import SessionModel
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from foundation.stores.errors import TableBusy, TableMissing


class SlowDynamoDB:
    """One table, whose description, status and backups follow its creation a few requests late."""

    def __init__(self, database: Database, *, taken_by_another: bool = False) -> None:
        self.features: list[str] = []
        self._name = database.table_name(SessionModel)
        self._taken_by_another = taken_by_another
        self._created: dict[str, Any] | None = None
        self._since_creation = 0
        self._busy = 2

    async def call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        assert request["TableName"] == self._name
        match operation:
            case "DescribeTable":
                return self._describe()
            case "CreateTable":
                return self._create(request)
            case "DescribeTimeToLive":
                return {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}
            case "DescribeContinuousBackups":
                return {"ContinuousBackupsDescription": {"ContinuousBackupsStatus": "ENABLED"}}
            case "UpdateTimeToLive":
                return self._change("expiry")
            case "UpdateContinuousBackups":
                return self._change("recovery")
        raise AssertionError(operation)

    def _describe(self) -> dict[str, Any]:
        if self._created is None:
            raise TableMissing
        self._since_creation += 1
        if self._since_creation == 1:
            raise TableMissing
        status = "ACTIVE" if self._since_creation > 3 else "CREATING"
        return {"Table": {**self._created, "TableStatus": status, "GlobalSecondaryIndexes": []}}

    def _create(self, request: dict[str, Any]) -> dict[str, Any]:
        self._created = request
        if self._taken_by_another:
            raise TableBusy
        return {}

    def _change(self, feature: str) -> dict[str, Any]:
        assert self._since_creation > 3, "changed before it was active"
        if self._busy:
            self._busy -= 1
            raise TableBusy
        self.features.append(feature)
        return {}


@pytest.mark.parametrize(("taken", "report"), [(False, "sessions: created"), (True, "sessions: exists")])
def test_a_table_gets_its_features_however_long_it_takes_and_whichever_process_made_it(
    monkeypatch: pytest.MonkeyPatch, taken: bool, report: str
) -> None:
    database = Database(DynamoDBOptions(region="us-east-1"))
    slow = SlowDynamoDB(database, taken_by_another=taken)
    monkeypatch.setattr(database.on_loop.wire, "call", slow.call)
    monkeypatch.setattr(SessionModel, "point_in_time_recovery", True)
    lines: list[str] = []
    schema.create_missing(database, [SessionModel], report=lines.append, sleep=lambda pause: None)
    assert slow.features == ["expiry", "recovery"]
    assert lines[0] == report


def test_a_table_that_stays_busy_is_an_error_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(DynamoDBOptions(region="us-east-1"))
    slow = SlowDynamoDB(database)
    slow._busy = 10**9
    monkeypatch.setattr(database.on_loop.wire, "call", slow.call)
    moments = iter(range(0, 10**6, 10))
    monkeypatch.setattr("foundation.stores.dynamodb.schema.time", SimpleNamespace(monotonic=lambda: next(moments)))
    with pytest.raises(TableBusy):
        schema.create_missing(database, [SessionModel], report=lambda line: None, sleep=lambda pause: None)
