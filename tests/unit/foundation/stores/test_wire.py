"""The wire is botocore's own, only cheaper: the same request leaves, the same answer and failures come back."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread, get_ident
from typing import Any

import botocore.session
import pytest

from foundation.stores.dynamodb.connection import DynamoDBOptions, ParleyConnection
from foundation.stores.dynamodb.signing import Credentials
from foundation.stores.errors import StoreRefused, StoreUnavailable, Throttled, TransactionCancelled, WriteRefused

REQUEST = {
    "TransactItems": [
        {
            "Put": {
                "TableName": "messages",
                "Item": {"chat_id": {"S": "chät"}, "sequence": {"N": "1"}},
                "ConditionExpression": "attribute_not_exists(chat_id)",
            }
        }
    ]
}


class Engine:
    """Answers what it is told and keeps what it was sent."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], Any]] = []
        self.answers: list[tuple[int, dict[str, Any]]] = []

    def handler(self) -> type[BaseHTTPRequestHandler]:
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                engine.requests.append((headers, json.loads(body)))
                status, answer = engine.answers.pop(0) if engine.answers else (200, {})
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.0")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def url(engine: Engine) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), engine.handler())
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture
def connection(url: str) -> ParleyConnection:
    return ParleyConnection(DynamoDBOptions(region="eu-west-1", endpoint_url=url, attempts=1), read_only=False)


class TestRequests:
    def test_the_same_request_leaves_as_botocore_would_send(
        self, engine: Engine, url: str, connection: ParleyConnection
    ) -> None:
        plain: Any = botocore.session.get_session().create_client("dynamodb", "eu-west-1", endpoint_url=url)
        token = "the-same-token"
        plain.transact_write_items(**REQUEST, ClientRequestToken=token)
        connection.dispatch("TransactWriteItems", {**REQUEST, "ClientRequestToken": token})
        (thorough_headers, thorough), (lean_headers, lean) = engine.requests
        assert lean == thorough
        for name in ("x-amz-target", "content-type"):
            assert lean_headers[name] == thorough_headers[name]
        signed = [headers["authorization"].split(", Signature=")[0] for headers in (lean_headers, thorough_headers)]
        assert signed[0] == signed[1]

    def test_a_transaction_carries_a_token_of_its_own(self, engine: Engine, connection: ParleyConnection) -> None:
        for _ in range(2):
            connection.dispatch("TransactWriteItems", dict(REQUEST))
        tokens = [body["ClientRequestToken"] for _, body in engine.requests]
        assert len(set(tokens)) == 2
        assert all(tokens)

    def test_without_an_endpoint_of_ours_the_regions_own_is_used(self) -> None:
        connection = ParleyConnection(DynamoDBOptions(region="eu-west-1"), read_only=False)
        assert connection.endpoint == "https://dynamodb.eu-west-1.amazonaws.com"


class TestAnswers:
    def test_items_come_back_in_dynamodbs_form(self, engine: Engine, connection: ParleyConnection) -> None:
        items = [{"chat_id": {"S": "chät"}, "sequence": {"N": "12345678901234567890"}}]
        engine.answers.append((200, {"Items": items, "Count": 1}))
        assert connection.dispatch("Query", {"TableName": "messages"})["Items"] == items

    def test_cancellation_reasons_are_understood(self, engine: Engine, connection: ParleyConnection) -> None:
        reasons = [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Item": {"chat_id": {"S": "a"}}}]
        kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"
        engine.answers.append((400, {"__type": kind, "Message": "cancelled", "CancellationReasons": reasons}))
        with pytest.raises(TransactionCancelled) as cancelled:
            connection.dispatch("TransactWriteItems", dict(REQUEST))
        first, second = cancelled.value.reasons
        assert first is None
        assert second is not None
        assert (second.is_condition, second.item) == (True, {"chat_id": {"S": "a"}})

    @pytest.mark.parametrize(
        ("kind", "error"),
        [("ProvisionedThroughputExceededException", Throttled), ("ValidationException", StoreRefused)],
    )
    def test_failures_keep_their_names(
        self, engine: Engine, connection: ParleyConnection, kind: str, error: type[Exception]
    ) -> None:
        engine.answers.append((400, {"__type": f"com.amazon.coral.validate#{kind}", "message": "no"}))
        with pytest.raises(error):
            connection.dispatch("Query", {"TableName": "messages"})

    def test_a_failure_that_passes_is_tried_again_by_the_client(self, engine: Engine, url: str) -> None:
        connection = ParleyConnection(DynamoDBOptions(region="eu-west-1", endpoint_url=url), read_only=False)
        engine.answers += [(500, {"__type": "x#InternalServerError"}), (200, {"Count": 3})]
        assert connection.dispatch("Query", {"TableName": "messages"})["Count"] == 3
        assert len(engine.requests) == 2


class TestFromAnEventLoop:
    @pytest.fixture
    def patient(self, url: str) -> ParleyConnection:
        connection = ParleyConnection(DynamoDBOptions(region="eu-west-1", endpoint_url=url), read_only=False)
        connection.use_loop()
        return connection

    async def test_the_same_request_leaves(self, engine: Engine, patient: ParleyConnection) -> None:
        request = {**REQUEST, "ClientRequestToken": "token"}
        patient.dispatch("TransactWriteItems", request)
        await patient.dispatch_soon("TransactWriteItems", request)
        (headers, body), (soon_headers, soon_body) = engine.requests
        assert body == soon_body
        assert headers.keys() == soon_headers.keys()
        patient.close()

    async def test_a_refusal_is_not_tried_again(self, engine: Engine, patient: ParleyConnection) -> None:
        engine.answers.append((400, {"__type": "x#ValidationException", "message": "no"}))
        with pytest.raises(StoreRefused):
            await patient.dispatch_soon("Query", {"TableName": "messages"})
        assert len(engine.requests) == 1
        patient.close()

    async def test_what_may_pass_is_tried_again_with_the_same_token(
        self, engine: Engine, patient: ParleyConnection
    ) -> None:
        engine.answers += [(500, {"__type": "x#InternalServerError"}), (200, {})]
        await patient.dispatch_soon("TransactWriteItems", dict(REQUEST))
        first, second = (body["ClientRequestToken"] for _, body in engine.requests)
        assert first == second
        patient.close()

    async def test_a_read_only_process_writes_nothing(self, engine: Engine, url: str) -> None:
        reader = ParleyConnection(DynamoDBOptions(region="eu-west-1", endpoint_url=url), read_only=True)
        reader.use_loop()
        with pytest.raises(WriteRefused):
            await reader.dispatch_soon("PutItem", {})
        assert not engine.requests

    async def test_without_a_loop_of_its_own_a_thread_asks(self, engine: Engine, connection: ParleyConnection) -> None:
        engine.answers.append((200, {"Count": 3}))
        assert (await connection.dispatch_soon("Query", {"TableName": "messages"}))["Count"] == 3

    async def test_stale_credentials_are_fetched_by_a_thread(
        self, engine: Engine, patient: ParleyConnection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fetching: list[int] = []
        wire = patient._loop_wire
        assert wire is not None
        found = wire._credentials()

        def fetch() -> Credentials:
            fetching.append(get_ident())
            return found

        monkeypatch.setattr(wire, "_are_stale", lambda: True)
        monkeypatch.setattr(wire, "_credentials", fetch)
        await patient.dispatch_soon("Query", {"TableName": "messages"})
        assert len(fetching) == 1
        assert fetching != [get_ident()]
        patient.close()

    async def test_one_try_is_all_where_the_options_say_so(self, engine: Engine, connection: ParleyConnection) -> None:
        connection.use_loop()
        engine.answers += [(500, {"__type": "x#InternalServerError"})] * 2
        with pytest.raises(StoreUnavailable):
            await connection.dispatch_soon("Query", {"TableName": "messages"})
        assert len(engine.requests) == 1
        connection.close()
