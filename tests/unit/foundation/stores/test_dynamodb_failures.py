"""How DynamoDB's failures reach the callers of a database, over a real socket that answers as the test scripts it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from prometheus_client import REGISTRY

from accounts.models import UserModel
from chats.models import MembershipModel
from foundation.kernel.errors import ParleyError
from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb import AsyncDatabase, DynamoDBOptions
from foundation.stores.errors import (
    StoreRefused,
    StoreUnavailable,
    TableBusy,
    TableMissing,
    Throttled,
    TransactionCancelled,
    TransactionConflict,
)
from tests.contract import patterns as p
from tests.unit.foundation.stores.scripted_server import End, Script, ScriptedServer, answer, failure, raw_answer


@pytest.fixture
async def database(server: ScriptedServer) -> AsyncIterator[AsyncDatabase]:
    options = DynamoDBOptions(region="us-east-1", endpoint_url=server.url, attempts=2)
    database = AsyncDatabase(options, retry=RetryPolicy(attempts=3), sleep=lambda pause: asyncio.sleep(0))
    yield database
    await database.wire.close()


class TestNames:
    @pytest.mark.parametrize(
        ("script", "expected"),
        [
            (failure("ProvisionedThroughputExceededException"), Throttled),
            (failure("ThrottlingException"), Throttled),
            (failure("TransactionConflictException"), TransactionConflict),
            (failure("ResourceNotFoundException"), TableMissing),
            (failure("ResourceInUseException"), TableBusy),
            (failure("ContinuousBackupsUnavailableException"), TableBusy),
            (failure("InternalServerError", 500), StoreUnavailable),
            (failure("SomethingNew", 503), StoreUnavailable),
            (failure("ValidationException"), StoreRefused),
            (failure("AccessDeniedException"), StoreRefused),
        ],
    )
    async def test_each_failure_has_our_name(
        self, server: ScriptedServer, database: AsyncDatabase, script: Script, expected: type[ParleyError]
    ) -> None:
        server.scripts = [script]
        with pytest.raises(expected) as raised:
            await database.get(p.GET_USER, "ann")
        assert type(raised.value) is expected

    async def test_throttling_is_tried_again_a_bounded_number_of_times(
        self, server: ScriptedServer, database: AsyncDatabase
    ) -> None:
        server.scripts = [failure("ThrottlingException")]
        with pytest.raises(Throttled):
            await database.get(p.GET_USER, "ann")
        assert server.operations == ["GetItem", "GetItem"]

    async def test_a_passing_failure_is_not_noticed(self, server: ScriptedServer, database: AsyncDatabase) -> None:
        server.scripts = [failure("InternalServerError", 500), answer({"Item": {"user_id": {"S": "ann"}}})]
        assert await database.get(p.GET_USER, "ann") is not None


class TestOutcomes:
    @pytest.mark.parametrize(
        ("script", "outcome"),
        [
            (answer({}), "ok"),
            (failure("ThrottlingException"), "ThrottlingException"),
            (failure("InternalServerError", 500), "InternalServerError"),
            (raw_answer(b"<html>", 503), "Unknown"),
            ([End.CLOSE], "unavailable"),
        ],
    )
    async def test_a_request_is_counted_by_the_engines_own_name_for_its_outcome(
        self, server: ScriptedServer, database: AsyncDatabase, script: Script, outcome: str
    ) -> None:
        server.scripts, before = [script], counted(outcome)
        with suppress(ParleyError):
            await database.get(p.GET_USER, "ann")
        assert counted(outcome) == before + 1

    async def test_a_request_that_its_caller_gives_up_does_not_count_as_answered(
        self, server: ScriptedServer, database: AsyncDatabase
    ) -> None:
        server.scripts, ok, cancelled = [[]], counted("ok"), counted("cancelled")
        asking = asyncio.ensure_future(database.get(p.GET_USER, "ann"))
        async with asyncio.timeout(30):
            while not server.operations:  # noqa: ASYNC110 - the server only lists what it has received
                await asyncio.sleep(0.001)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (counted("ok"), counted("cancelled")) == (ok, cancelled + 1)


def counted(outcome: str) -> float:
    return (
        REGISTRY.get_sample_value("parley_dynamodb_requests_total", {"operation": "GetItem", "outcome": outcome}) or 0
    )


class TestConflicts:
    CONFLICT = failure(
        "TransactionCanceledException", CancellationReasons=[{"Code": "TransactionConflict"}, {"Code": "None"}]
    )

    async def test_a_conflict_is_tried_again_until_it_passes(
        self, server: ScriptedServer, database: AsyncDatabase
    ) -> None:
        server.scripts = [self.CONFLICT, self.CONFLICT, answer({})]
        await database.transact([database.putting(p.ADD_USER, UserModel(user_id="ann"))])
        assert server.operations == ["TransactWriteItems"] * 3

    async def test_a_lasting_conflict_ends_as_a_retryable_error(
        self, server: ScriptedServer, database: AsyncDatabase
    ) -> None:
        server.scripts = [self.CONFLICT]
        with pytest.raises(TransactionConflict) as raised:
            await database.transact([database.putting(p.ADD_USER, UserModel(user_id="ann"))])
        assert raised.value.retry_after is not None
        assert server.operations == ["TransactWriteItems"] * 3

    async def test_a_single_write_waits_for_the_transaction_that_holds_its_item(
        self, server: ScriptedServer, database: AsyncDatabase
    ) -> None:
        server.scripts = [failure("TransactionConflictException"), answer({})]
        await database.put(p.PUT_USER, UserModel(user_id="ann"))
        assert server.operations == ["PutItem"] * 2

    async def test_a_single_write_does_not_wait_for_ever(self, server: ScriptedServer, database: AsyncDatabase) -> None:
        server.scripts = [failure("TransactionConflictException")]
        with pytest.raises(TransactionConflict):
            await database.delete(p.DELETE_USER, ("ann",))
        assert server.operations == ["DeleteItem"] * 3

    async def test_without_retries_the_caller_sees_the_reasons(
        self, server: ScriptedServer, database: AsyncDatabase
    ) -> None:
        server.scripts = [self.CONFLICT]
        with pytest.raises(TransactionCancelled) as raised:
            await database.transact_once([database.putting(p.ADD_USER, UserModel(user_id="ann"))])
        assert raised.value.is_transient
        assert [reason and reason.code for reason in raised.value.reasons] == ["TransactionConflict", None]
        assert server.operations == ["TransactWriteItems"]


class TestUnprocessed:
    async def test_keys_left_unread_are_read_again(self, server: ScriptedServer, database: AsyncDatabase) -> None:
        left = {"users": {"Keys": [{"user_id": {"S": "bob"}}], "ConsistentRead": True}}
        server.scripts = [
            answer({"Responses": {"users": [{"user_id": {"S": "ann"}}]}, "UnprocessedKeys": left}),
            answer({"Responses": {"users": [{"user_id": {"S": "bob"}}]}, "UnprocessedKeys": {}}),
        ]
        found = await database.batch_get({p.READ_USERS: [("ann",), ("bob",)]})
        assert set(found.of(p.READ_USERS)) == {("ann",), ("bob",)}

    async def test_keys_that_stay_unread_are_an_error_and_never_look_absent(
        self, server: ScriptedServer, database: AsyncDatabase
    ) -> None:
        left = {"users": {"Keys": [{"user_id": {"S": "bob"}}]}}
        server.scripts = [answer({"Responses": {}, "UnprocessedKeys": left})]
        with pytest.raises(Throttled):
            await database.batch_get({p.READ_USERS: [("bob",)]})

    async def test_items_that_stay_unwritten_are_an_error(
        self, server: ScriptedServer, database: AsyncDatabase
    ) -> None:
        left = {"chat_memberships": [{"DeleteRequest": {"Key": {"chat_id": {"S": "c"}, "user_id": {"S": "u"}}}}]}
        server.scripts = [answer({"UnprocessedItems": left})]
        item = MembershipModel(chat_id="c", user_id="u", role="member", joined_at="")
        with pytest.raises(Throttled):
            await database.batch_put(p.WRITE_MEMBERS, [item])
        assert server.operations == ["BatchWriteItem"] * 3


class TestDeclarations:
    async def test_a_pattern_runs_only_as_it_was_declared(self, database: AsyncDatabase) -> None:
        with pytest.raises(ValueError, match="declared as PutItem"):
            await database.get(p.PUT_USER, "ann")
