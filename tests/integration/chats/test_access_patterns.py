"""Every request to DynamoDB is one of the documented patterns, with the documented operation and consistency."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from foundation.stores.dynamodb import Database
from foundation.stores.dynamodb.patterns import declared
from tests.integration.chats.services import Services, captured, crowd, just_before

PREFIX = "chats_tests_"


@dataclass(frozen=True)
class Access:
    """One way to touch one table; `strong` is None for writes."""

    operation: str
    table: str
    index: str | None = None
    strong: bool | None = None


DOCUMENTED = {
    "Get chat metadata": Access("GetItem", "chats", None, False),
    "List chat members": Access("Query", "chat_memberships", None, True),
    "List user's chats": Access("Query", "chat_memberships", "user_chats-index", False),
    "Check user in chat": Access("GetItem", "chat_memberships", None, True),
    # With the notice that tells of it, in one transaction.
    "Add member": Access("TransactWriteItems (Put)", "chat_memberships"),
    "Remove member": Access("TransactWriteItems (Delete)", "chat_memberships"),
}


def accesses(operation: str, request: dict[str, Any]) -> Iterator[Access]:
    """What a request touches, item kind by item kind."""
    if operation == "TransactWriteItems":
        for item in request["TransactItems"]:
            [(kind, part)] = item.items()
            yield Access(f"TransactWriteItems ({kind})", part["TableName"].removeprefix(PREFIX))
    elif operation == "BatchGetItem":
        for table, part in request["RequestItems"].items():
            yield Access(operation, table.removeprefix(PREFIX), None, part["ConsistentRead"])
    elif operation == "BatchWriteItem":
        for table, parts in request["RequestItems"].items():
            for part in parts:
                [kind] = part
                yield Access(f"{operation} ({kind.removesuffix('Request')})", table.removeprefix(PREFIX))
    else:
        strong = bool(request.get("ConsistentRead")) if operation in {"GetItem", "Query"} else None
        yield Access(operation, request["TableName"].removeprefix(PREFIX), request.get("IndexName"), strong)


def walk_through_every_route(services: Services) -> None:
    ada, bob, cem = services.user(), services.user(), services.user()
    many = crowd(services, 120)
    chat_id = ada.create_group(bob, **{"Idempotency-Key": "k"}).body["chat_id"]
    services.say(chat_id, ada.user_id, "hello")
    for answer in (
        ada.create_direct(bob),
        bob.create_direct(ada),
        ada.get("/api/chats"),
        ada.get(f"/api/chats/{chat_id}"),
        ada.patch(f"/api/chats/{chat_id}", {"name": "New"}),
        ada.put(f"/api/chats/{chat_id}/mute", {"muted_until": None}),
        ada.get(f"/api/chats/{chat_id}/members"),
        ada.add(chat_id, cem),
        ada.give_role(chat_id, cem, "admin"),
        ada.remove(chat_id, cem),
        ada.give_role(chat_id, bob, "owner"),
        ada.remove(chat_id, ada),
    ):
        assert answer.status in {200, 201, 204}
    key = {"Idempotency-Key": "large"}
    with just_before(services.database, "TransactWriteItems", lambda: ada.create_group(*many, **key)):
        assert ada.create_group(*many, **key).status == 200, "the slower one, which withdraws its memberships"


@pytest.fixture
def seen(services: Services, database: Database) -> set[Access]:
    with captured(database) as requests:
        walk_through_every_route(services)
    return {access for operation, request in requests for access in accesses(operation, request)}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_pattern_is_carried_out_as_documented(seen: set[Access], name: str) -> None:
    documented = DOCUMENTED[name]
    assert documented in seen
    [pattern] = [pattern for pattern in declared() if pattern.name == name]
    assert Access(str(pattern.operation), pattern.table, pattern.index_name, documented.strong) == documented


def test_nothing_else_happens(seen: set[Access]) -> None:
    assert {
        Access("BatchWriteItem (Put)", "chat_memberships"),
        Access("BatchWriteItem (Delete)", "chat_memberships"),
    } <= seen
    known = {
        Access(
            str(pattern.operation),
            pattern.table,
            pattern.index_name,
            None if "Write" in pattern.operation or pattern.consistency == "N/A" else pattern.strong,
        )
        for pattern in declared()
    }
    assert seen <= known
    assert not [access for access in seen if access.operation == "Scan"]


@pytest.mark.parametrize("chats", [1, 25])
def test_a_page_of_the_inbox_costs_the_same_however_many_chats_it_holds(
    services: Services, database: Database, chats: int
) -> None:
    ada = services.user()
    for _ in range(chats):
        chat_id = ada.create_group().body["chat_id"]
        services.say(chat_id, ada.user_id, "hello")
    with captured(database) as requests:
        assert len(ada.get("/api/chats").body["items"]) == chats
    assert [operation for operation, _ in requests] == ["Query", "BatchGetItem", "BatchGetItem"]
