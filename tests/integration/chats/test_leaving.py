"""Every membership that ends is counted in the chat's counter, which messages are checked against (ADR-019)."""

from typing import Any

import pytest

from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import Database
from foundation.stores.errors import TransactionConflict
from tests.integration.chats.stage import Person, Stage


class Group:
    """An owner and two members."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.owner, self.ann, self.bob = (stage.user() for _ in range(3))
        self.chat_id = ChatId(self.owner.create_group(self.ann, self.bob).body["chat_id"])

    def departures(self) -> int:
        found = self.stage.database.batch_get(self.stage.posting.counter_lookup([self.chat_id]))
        return self.stage.posting.tallies_among(found)[self.chat_id].departures

    def has(self, person: Person) -> bool:
        return self.stage.role_of(self.chat_id, person) is not None


@pytest.fixture
def group(stage: Stage) -> Group:
    return Group(stage)


def test_leaving_and_removal_are_counted(group: Group) -> None:
    assert group.departures() == 0
    group.ann.remove(group.chat_id, group.ann)
    group.owner.remove(group.chat_id, group.bob)
    assert group.departures() == 2


def test_other_changes_are_not(group: Group) -> None:
    group.owner.give_role(group.chat_id, group.ann, "admin")
    group.owner.add(group.chat_id, group.stage.user())
    assert group.owner.remove(group.chat_id, group.owner).status == 409
    assert group.departures() == 0


def test_a_busy_counter_is_retried(group: Group, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages contend for it: the removal is retried."""
    send, refusals = database.connection.dispatch, [TransactionConflict("busy")] * 3

    def dispatch(operation: str, kwargs: dict[str, Any]) -> dict[str, Any]:
        if operation == "TransactWriteItems" and refusals:
            raise refusals.pop()
        return send(operation, kwargs)

    monkeypatch.setattr(database.connection, "dispatch", dispatch)
    assert group.owner.remove(group.chat_id, group.ann).status == 204
    assert (group.has(group.ann), group.departures()) == (False, 1)


def test_a_counter_that_stays_busy_is_a_retryable_error_and_the_membership_stays(
    group: Group, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = database.connection.dispatch

    def dispatch(operation: str, kwargs: dict[str, Any]) -> dict[str, Any]:
        if operation == "TransactWriteItems":
            raise TransactionConflict("busy")
        return send(operation, kwargs)

    with monkeypatch.context() as busy:
        busy.setattr(database.connection, "dispatch", dispatch)
        answer = group.owner.remove(group.chat_id, group.ann)
    assert answer.status == 503
    assert (group.has(group.ann), group.departures()) == (True, 0)
