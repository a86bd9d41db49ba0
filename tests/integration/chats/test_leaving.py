"""Every membership that ends is counted in the chat's counter, which messages are checked against (ADR-019)."""

from typing import Any

import pytest

from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import Database
from foundation.stores.errors import TransactionConflict
from tests.integration.chats.services import Person, Services


class Group:
    """An owner and two members."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.owner, self.ann, self.bob = (services.user() for _ in range(3))
        self.chat_id = ChatId(self.owner.create_group(self.ann, self.bob).body["chat_id"])

    def departures(self) -> int:
        found = self.services.database.batch_get(self.services.posting.counter_lookup([self.chat_id]))
        return self.services.posting.counter_states_among(found)[self.chat_id].departures

    def has(self, person: Person) -> bool:
        return self.services.role_of(self.chat_id, person) is not None


@pytest.fixture
def group(services: Services) -> Group:
    return Group(services)


def test_leaving_and_removal_are_counted(group: Group) -> None:
    assert group.departures() == 0
    group.ann.remove(group.chat_id, group.ann)
    group.owner.remove(group.chat_id, group.bob)
    assert group.departures() == 2


def test_other_changes_are_not(group: Group) -> None:
    group.owner.give_role(group.chat_id, group.ann, "admin")
    group.owner.add(group.chat_id, group.services.user())
    assert group.owner.remove(group.chat_id, group.owner).status == 409
    assert group.departures() == 0


def test_a_busy_counter_is_retried(group: Group, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages contend for it: the removal is retried."""
    wire, refusals = database.on_loop.wire, [TransactionConflict("busy")] * 3
    send = wire.call

    async def call(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "TransactWriteItems" and refusals:
            raise refusals.pop()
        return await send(operation, request)

    monkeypatch.setattr(wire, "call", call)
    assert group.owner.remove(group.chat_id, group.ann).status == 204
    assert (group.has(group.ann), group.departures()) == (False, 1)


def test_a_counter_that_stays_busy_is_a_retryable_error_and_the_membership_stays(
    group: Group, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = database.on_loop.wire
    send = wire.call

    async def call(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "TransactWriteItems":
            raise TransactionConflict("busy")
        return await send(operation, request)

    with monkeypatch.context() as busy:
        busy.setattr(wire, "call", call)
        answer = group.owner.remove(group.chat_id, group.ann)
    assert answer.status == 503
    assert (group.has(group.ann), group.departures()) == (True, 0)
