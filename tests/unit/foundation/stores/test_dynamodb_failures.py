"""How DynamoDB's failures reach us, over a real socket that answers whatever the test wants."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from accounts.models import UserModel
from chats.models import MembershipModel
from foundation.kernel.errors import ParleyError
from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb import Database, DynamoDBOptions
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

# How often the server looks whether it is to stop.
POLL_INTERVAL = 0.01

Answer = tuple[int, dict[str, Any]]


class ScriptedEngine:
    """Speaks DynamoDB's protocol from a script; the last answer repeats."""

    def __init__(self) -> None:
        self.script: list[Answer] = []
        self.operations: list[str] = []
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                engine.operations.append(self.headers["X-Amz-Target"].rpartition(".")[2])
                status, body = engine.script.pop(0) if len(engine.script) > 1 else engine.script[0]
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(POLL_INTERVAL,), daemon=True).start()


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    engine = ScriptedEngine()
    yield engine
    engine.server.shutdown()
    engine.server.server_close()


@pytest.fixture
def database(engine: ScriptedEngine) -> Database:
    options = DynamoDBOptions(region="us-east-1", endpoint_url=engine.url, attempts=2)
    return Database(options, retry=RetryPolicy(attempts=3, first_pause=0.001), sleep=lambda pause: None)


def failure(code: str, status: int = 400, **more: Any) -> Answer:
    return status, {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "", **more}


class TestNames:
    @pytest.mark.parametrize(
        ("answer", "expected"),
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
    def test_each_failure_has_our_name(
        self, engine: ScriptedEngine, database: Database, answer: Answer, expected: type[ParleyError]
    ) -> None:
        engine.script = [answer]
        with pytest.raises(expected) as raised:
            database.get(p.GET_USER, "ann")
        assert type(raised.value) is expected

    def test_throttling_is_tried_again_a_bounded_number_of_times(
        self, engine: ScriptedEngine, database: Database
    ) -> None:
        engine.script = [failure("ThrottlingException")]
        with pytest.raises(Throttled):
            database.get(p.GET_USER, "ann")
        assert engine.operations == ["GetItem", "GetItem"]

    def test_a_passing_failure_is_not_noticed(self, engine: ScriptedEngine, database: Database) -> None:
        engine.script = [failure("InternalServerError", 500), (200, {"Item": {"user_id": {"S": "ann"}}})]
        assert database.get(p.GET_USER, "ann") is not None


class TestConflicts:
    CONFLICT = failure(
        "TransactionCanceledException", CancellationReasons=[{"Code": "TransactionConflict"}, {"Code": "None"}]
    )

    def test_a_conflict_is_tried_again_until_it_passes(self, engine: ScriptedEngine, database: Database) -> None:
        engine.script = [self.CONFLICT, self.CONFLICT, (200, {})]
        database.transact([database.putting(p.ADD_USER, UserModel(user_id="ann"))])
        assert engine.operations == ["TransactWriteItems"] * 3

    def test_a_lasting_conflict_ends_as_a_retryable_error(self, engine: ScriptedEngine, database: Database) -> None:
        engine.script = [self.CONFLICT]
        with pytest.raises(TransactionConflict) as raised:
            database.transact([database.putting(p.ADD_USER, UserModel(user_id="ann"))])
        assert raised.value.retry_after is not None
        assert engine.operations == ["TransactWriteItems"] * 3

    def test_a_single_write_waits_for_the_transaction_that_holds_its_item(
        self, engine: ScriptedEngine, database: Database
    ) -> None:
        engine.script = [failure("TransactionConflictException"), (200, {})]
        database.put(p.PUT_USER, UserModel(user_id="ann"))
        assert engine.operations == ["PutItem"] * 2

    def test_a_single_write_does_not_wait_for_ever(self, engine: ScriptedEngine, database: Database) -> None:
        engine.script = [failure("TransactionConflictException")]
        with pytest.raises(TransactionConflict):
            database.delete(p.DELETE_USER, ("ann",))
        assert engine.operations == ["DeleteItem"] * 3

    def test_with_one_attempt_the_caller_sees_the_reasons(self, engine: ScriptedEngine, database: Database) -> None:
        engine.script = [self.CONFLICT]
        with pytest.raises(TransactionCancelled) as raised:
            database.transact([database.putting(p.ADD_USER, UserModel(user_id="ann"))], retry=RetryPolicy(attempts=1))
        assert raised.value.is_transient
        assert [reason and reason.code for reason in raised.value.reasons] == ["TransactionConflict", None]


class TestUnprocessed:
    def test_keys_left_unread_are_read_again(self, engine: ScriptedEngine, database: Database) -> None:
        left = {"users": {"Keys": [{"user_id": {"S": "bob"}}], "ConsistentRead": True}}
        engine.script = [
            (200, {"Responses": {"users": [{"user_id": {"S": "ann"}}]}, "UnprocessedKeys": left}),
            (200, {"Responses": {"users": [{"user_id": {"S": "bob"}}]}, "UnprocessedKeys": {}}),
        ]
        found = database.batch_get({p.READ_USERS: [("ann",), ("bob",)]}).of(p.READ_USERS)
        assert set(found) == {("ann",), ("bob",)}

    def test_keys_that_stay_unread_are_an_error_and_never_look_absent(
        self, engine: ScriptedEngine, database: Database
    ) -> None:
        left = {"users": {"Keys": [{"user_id": {"S": "bob"}}]}}
        engine.script = [(200, {"Responses": {}, "UnprocessedKeys": left})]
        with pytest.raises(Throttled):
            database.batch_get({p.READ_USERS: [("bob",)]})

    def test_items_that_stay_unwritten_are_an_error(self, engine: ScriptedEngine, database: Database) -> None:
        left = {"chat_memberships": [{"DeleteRequest": {"Key": {"chat_id": {"S": "c"}, "user_id": {"S": "u"}}}}]}
        engine.script = [(200, {"UnprocessedItems": left})]
        item = MembershipModel(chat_id="c", user_id="u", role="member", joined_at="")
        with pytest.raises(Throttled):
            database.batch_put(p.WRITE_MEMBERS, [item])
        assert engine.operations == ["BatchWriteItem"] * 3


class TestSilence:
    def test_a_closed_port_is_store_unavailable(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
            database = Database(DynamoDBOptions(region="us-east-1", endpoint_url=url, attempts=1))
            with pytest.raises(StoreUnavailable):
                database.get(p.GET_USER, "ann")

    def test_an_engine_that_never_answers_is_store_unavailable(self) -> None:
        with socket.socket() as mute:
            mute.bind(("127.0.0.1", 0))
            mute.listen()
            url = f"http://127.0.0.1:{mute.getsockname()[1]}"
            options = DynamoDBOptions(region="us-east-1", endpoint_url=url, attempts=1, read_timeout=0.2)
            with pytest.raises(StoreUnavailable):
                Database(options).get(p.GET_USER, "ann")


class TestDeclarations:
    def test_a_pattern_runs_only_as_it_was_declared(self, database: Database) -> None:
        with pytest.raises(ValueError, match="declared as PutItem"):
            database.get(p.PUT_USER, "ann")
