"""The wire sends what botocore would send, and names DynamoDB's answers and failures."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import get_ident
from typing import Any
from unittest.mock import patch

import botocore.session
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.exceptions import CredentialRetrievalError
from yarl import URL

from foundation.stores.dynamodb import DynamoDBOptions
from foundation.stores.dynamodb.wire import Wire
from foundation.stores.errors import (
    EndpointUnusable,
    StoreRefused,
    StoreUnavailable,
    Throttled,
    TransactionCancelled,
    WriteRefused,
)
from tests.unit.foundation.stores.scripted_server import Received, ScriptedServer, answer, failure, raw_answer

REGION = "eu-west-1"
AMZ_DATE = "%Y%m%dT%H%M%SZ"
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


class Pauses:
    """A sleep that returns at once."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def options(server: ScriptedServer) -> DynamoDBOptions:
    return DynamoDBOptions(region=REGION, endpoint_url=server.url, attempts=3)


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
async def wire(options: DynamoDBOptions, pauses: Pauses) -> AsyncIterator[Wire]:
    wire = Wire(options, sleep=pauses)
    yield wire
    await wire.close()


class TestRequests:
    async def test_the_same_request_leaves_as_botocore_would_send(
        self, server: ScriptedServer, wire: Wire, options: DynamoDBOptions
    ) -> None:
        session = botocore.session.get_session()
        plain: Any = session.create_client("dynamodb", REGION, endpoint_url=options.endpoint_url)
        await asyncio.to_thread(plain.transact_write_items, **REQUEST, ClientRequestToken="token")
        await wire.call("TransactWriteItems", {**REQUEST, "ClientRequestToken": "token"})
        botocores, ours = server.requests
        assert (ours.method, ours.target, ours.json) == (botocores.method, botocores.target, botocores.json)
        for name in ("x-amz-target", "content-type", "host"):
            assert ours.headers[name] == botocores.headers[name]
        scopes = [each.headers["authorization"].split(", Signature=")[0] for each in (ours, botocores)]
        assert scopes[0] == scopes[1]

    async def test_a_transaction_carries_a_token_of_its_own(self, server: ScriptedServer, wire: Wire) -> None:
        for _ in range(2):
            await wire.call("TransactWriteItems", dict(REQUEST))
        tokens = [request.json["ClientRequestToken"] for request in server.requests]
        assert len(set(tokens)) == 2
        assert all(tokens)

    async def test_a_read_only_wire_sends_no_write(self, server: ScriptedServer, options: DynamoDBOptions) -> None:
        reader = Wire(options, read_only=True)
        with pytest.raises(WriteRefused):
            await reader.call("PutItem", {})
        assert server.requests == []


class TestSignatures:
    def authorization(self, request: Received, credentials: Credentials) -> str:
        """What botocore's SigV4 gives for a request as it arrived."""
        headers = {name: request.headers[name] for name in ("content-type", "host", "x-amz-target")}
        again = AWSRequest("POST", f"http://{request.headers['host']}{request.target}", headers, data=request.body)
        signed_at = datetime.strptime(request.headers["x-amz-date"], AMZ_DATE)  # noqa: DTZ007 - as botocore has it
        with patch("botocore.auth.get_current_datetime", return_value=signed_at):
            SigV4Auth(credentials, "dynamodb", REGION).add_auth(again)
        return str(again.headers["Authorization"])

    @pytest.mark.parametrize("token", [None, "a session's token"])
    async def test_a_signature_verifies(
        self, server: ScriptedServer, wire: Wire, monkeypatch: pytest.MonkeyPatch, token: str | None
    ) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret")
        if token:
            monkeypatch.setenv("AWS_SESSION_TOKEN", token)
        await wire.call("Query", {"TableName": "chät"})
        (request,) = server.requests
        found = request.headers["authorization"]
        assert found == self.authorization(request, Credentials("AKID", "a secret", token))
        assert found != self.authorization(request, Credentials("AKID", "another secret", token))
        assert request.headers.get("x-amz-security-token") == token

    @pytest.mark.parametrize("path", ["/dynamodb/", "/dynamodb", "/a%20b/c:d"])
    async def test_a_request_below_a_path_leaves_as_botocore_would_send_it_and_verifies(
        self, server: ScriptedServer, options: DynamoDBOptions, monkeypatch: pytest.MonkeyPatch, path: str
    ) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret")
        wire = Wire(replace(options, endpoint_url=server.url + path))
        await wire.call("ListTables", {})
        await wire.close()
        session = botocore.session.get_session()
        plain: Any = session.create_client("dynamodb", REGION, endpoint_url=server.url + path)
        await asyncio.to_thread(plain.list_tables)
        ours, botocores = server.requests
        assert ours.target == botocores.target
        assert ours.headers["authorization"] == self.authorization(ours, Credentials("AKID", "a secret"))


class TestCredentials:
    @pytest.fixture
    def no_credentials(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)

    @pytest.mark.usefixtures("no_credentials")
    async def test_missing_credentials_are_looked_for_again_by_the_next_call(
        self, server: ScriptedServer, wire: Wire, monkeypatch: pytest.MonkeyPatch, pauses: Pauses
    ) -> None:
        with pytest.raises(StoreUnavailable, match="credentials"):
            await wire.call("Query", {})
        assert (server.requests, len(pauses.seconds)) == ([], 2)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret")
        await wire.call("Query", {})
        assert "Credential=AKID/" in server.requests[0].headers["authorization"]

    async def test_credentials_are_looked_for_off_the_loop(self, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
        threads: list[int] = []
        resolve = wire._resolve

        def noted() -> tuple[URL, Any]:
            threads.append(get_ident())
            return resolve()

        monkeypatch.setattr(wire, "_resolve", noted)
        await wire.call("Query", {})
        assert len(threads) == 1
        assert threads != [get_ident()]

    async def test_stale_credentials_are_refreshed_off_the_loop(
        self, server: ScriptedServer, wire: Wire, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads: list[int] = []

        def refresh() -> dict[str, str]:
            threads.append(get_ident())
            return credentials("fresh", timedelta(hours=1))

        self.use(wire, RefreshableCredentials.create_from_metadata(credentials("old", timedelta(0)), refresh, "test"))
        for _ in range(2):
            await wire.call("Query", {})
        assert len(threads) == 1
        assert threads != [get_ident()]
        assert all("Credential=fresh/" in request.headers["authorization"] for request in server.requests)

    async def test_credentials_that_cannot_be_refreshed_are_store_unavailable(
        self, server: ScriptedServer, wire: Wire
    ) -> None:
        def refresh() -> dict[str, str]:
            raise CredentialRetrievalError(provider="test", error_msg="away")

        self.use(wire, RefreshableCredentials.create_from_metadata(credentials("old", timedelta(0)), refresh, "test"))
        with pytest.raises(StoreUnavailable, match="credentials"):
            await wire.call("Query", {})
        assert server.requests == []

    def use(self, wire: Wire, found: RefreshableCredentials) -> None:
        url, _ = wire._resolve()
        wire.__dict__["_resolve"] = lambda: (url, found)


def credentials(access_key: str, lifetime: timedelta) -> dict[str, str]:
    expiry = (datetime.now(UTC) + lifetime).isoformat()
    return {"access_key": access_key, "secret_key": "secret", "token": "token", "expiry_time": expiry}


class TestOpening:
    async def test_concurrent_first_calls_open_once(
        self, server: ScriptedServer, wire: Wire, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        resolved: list[URL] = []
        resolve = wire._resolve

        def noted() -> tuple[URL, Any]:
            url, found = resolve()
            resolved.append(url)
            return url, found

        monkeypatch.setattr(wire, "_resolve", noted)
        server.scripts = [answer({"Count": 1})]
        found = await asyncio.gather(*(wire.call("Query", {}) for _ in range(10)))
        assert found == [{"Count": 1}] * 10
        assert resolved == [URL(server.url)]

    async def test_a_failed_opening_fails_every_call_that_waits_for_it_and_the_next_call_opens(
        self, server: ScriptedServer, options: DynamoDBOptions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wire = Wire(replace(options, attempts=1))
        resolve = wire._resolve
        attempts: list[int] = []

        def fails_once() -> tuple[URL, Any]:
            attempts.append(get_ident())
            if len(attempts) == 1:
                raise CredentialRetrievalError(provider="test", error_msg="away")
            return resolve()

        monkeypatch.setattr(wire, "_resolve", fails_once)
        results = await asyncio.gather(*(wire.call("Query", {}) for _ in range(5)), return_exceptions=True)
        assert [type(result) for result in results] == [StoreUnavailable] * 5
        assert await asyncio.gather(*(wire.call("Query", {}) for _ in range(5))) == [{}] * 5
        assert len(attempts) == 2
        await wire.close()

    async def test_a_cancelled_first_call_does_not_fail_the_others(self, wire: Wire) -> None:
        first, second = (asyncio.ensure_future(wire.call("Query", {})) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == {}
        assert first.cancelled()


class TestEndpoint:
    def endpoint(self, url: str | None = None) -> str:
        endpoint, _ = Wire(DynamoDBOptions(region=REGION, endpoint_url=url))._resolve()
        return str(endpoint).rstrip("/")

    def test_it_is_the_regions_own(self) -> None:
        assert self.endpoint() == "https://dynamodb.eu-west-1.amazonaws.com"

    def test_aws_use_fips_endpoint(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
        wire = Wire(DynamoDBOptions(region="us-east-1"))
        assert wire._resolve()[0].host == "dynamodb-fips.us-east-1.amazonaws.com"

    @pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"])
    def test_the_environment_names_another(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        monkeypatch.setenv(name, "http://localhost:8000")
        assert self.endpoint() == "http://localhost:8000"

    def test_the_options_come_before_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://localhost:8000")
        assert self.endpoint("http://localhost:9000") == "http://localhost:9000"

    def test_a_user_and_a_password_are_ignored_as_by_botocore(self) -> None:
        assert self.endpoint("http://user:hunter2@localhost:9000/db/") == "http://localhost:9000/db"

    @pytest.mark.parametrize(
        "url", ["localhost:8000", "user:hunter2@localhost", "http://", "ftp://gw", "http://gw:99999"]
    )
    async def test_one_that_is_no_url_is_named_and_not_retried(
        self, monkeypatch: pytest.MonkeyPatch, pauses: Pauses, url: str
    ) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", url)
        unusable = Wire(DynamoDBOptions(region=REGION), sleep=pauses)
        with pytest.raises(EndpointUnusable, match="AWS_ENDPOINT_URL_DYNAMODB") as refused:
            await unusable.call("Query", {})
        assert "hunter2" not in str(refused.value)
        assert pauses.seconds == []

    async def test_a_region_that_is_none_is_named(self) -> None:
        with pytest.raises(EndpointUnusable, match="us east"):
            await Wire(DynamoDBOptions(region="us east")).call("Query", {})


class TestProxies:
    @pytest.fixture
    async def proxy(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedServer]:
        async with ScriptedServer().listening() as proxy:
            proxy.scripts = [answer({"Count": 7})]
            monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("//", "//user:password@"))
            yield proxy

    async def test_http_proxy_gets_the_requests_in_absolute_form(
        self, server: ScriptedServer, wire: Wire, proxy: ScriptedServer
    ) -> None:
        assert await wire.call("Query", {}) == {"Count": 7}
        (request,) = proxy.requests
        assert (request.method, request.target.rstrip("/")) == ("POST", server.url)
        assert request.headers["host"] == server.url.removeprefix("http://")
        assert request.headers["proxy-authorization"].startswith("Basic ")
        assert server.requests == []

    async def test_no_proxy_lists_the_endpoints_that_are_reached_directly(
        self, server: ScriptedServer, wire: Wire, proxy: ScriptedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
        assert await wire.call("Query", {}) == {}
        assert proxy.requests == []
        assert [request.target for request in server.requests] == ["/"]


class TestAnswers:
    async def test_items_come_back_in_dynamodbs_form(self, server: ScriptedServer, wire: Wire) -> None:
        items = [{"chat_id": {"S": "chät"}, "sequence": {"N": "12345678901234567890"}}]
        server.scripts = [answer({"Items": items, "Count": 1})]
        assert (await wire.call("Query", {"TableName": "messages"}))["Items"] == items

    async def test_cancellation_reasons_are_understood(self, server: ScriptedServer, wire: Wire) -> None:
        reasons = [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Item": {"chat_id": {"S": "a"}}}]
        server.scripts = [failure("TransactionCanceledException", CancellationReasons=reasons)]
        with pytest.raises(TransactionCancelled) as cancelled:
            await wire.call("TransactWriteItems", dict(REQUEST))
        first, second = cancelled.value.reasons
        assert first is None
        assert second is not None
        assert (second.is_condition, second.item) == (True, {"chat_id": {"S": "a"}})

    async def test_an_error_page_of_a_proxy_is_store_unavailable(self, server: ScriptedServer, wire: Wire) -> None:
        server.scripts = [raw_answer(b"<html>Bad gateway", 502)]
        with pytest.raises(StoreUnavailable):
            await wire.call("Query", {})
        assert len(server.requests) == 3


class TestRetries:
    async def test_what_may_pass_is_retried_with_the_same_token(self, server: ScriptedServer, wire: Wire) -> None:
        server.scripts = [failure("InternalServerError", 500), answer({})]
        await wire.call("TransactWriteItems", dict(REQUEST))
        first, second = (request.json["ClientRequestToken"] for request in server.requests)
        assert first == second

    @pytest.mark.parametrize(
        ("code", "status", "error"),
        [("InternalServerError", 500, StoreUnavailable), ("ProvisionedThroughputExceededException", 400, Throttled)],
    )
    async def test_retries_are_bounded_and_pause_longer_and_longer(
        self, server: ScriptedServer, wire: Wire, pauses: Pauses, code: str, status: int, error: type[Exception]
    ) -> None:
        server.scripts = [failure(code, status)]
        with pytest.raises(error):
            await wire.call("Query", {})
        assert len(server.requests) == 3
        assert [0 <= seconds <= 0.1 * 2**attempt for attempt, seconds in enumerate(pauses.seconds)] == [True, True]

    async def test_a_refusal_is_not_retried(self, server: ScriptedServer, wire: Wire) -> None:
        server.scripts = [failure("ValidationException")]
        with pytest.raises(StoreRefused):
            await wire.call("Query", {})
        assert len(server.requests) == 1

    async def test_the_options_may_allow_one_attempt_only(
        self, server: ScriptedServer, options: DynamoDBOptions
    ) -> None:
        wire = Wire(replace(options, attempts=1))
        server.scripts = [failure("InternalServerError", 500)]
        with pytest.raises(StoreUnavailable):
            await wire.call("Query", {})
        assert len(server.requests) == 1
        await wire.close()
