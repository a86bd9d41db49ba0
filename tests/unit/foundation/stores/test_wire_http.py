"""The wire's HTTP: connections that are kept, and answers that come in pieces, too late, broken or not at all."""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from foundation.stores.dynamodb import DynamoDBOptions
from foundation.stores.dynamodb.wire import Wire
from foundation.stores.errors import StoreUnavailable
from tests.real.certificates import Authority
from tests.unit.foundation.stores.connect_proxy import ConnectProxy
from tests.unit.foundation.stores.scripted_server import End, Script, ScriptedServer, answer, raw_answer

ONE, TWO = answer({"Count": 1}), answer({"Count": 2})
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Client:
    """A wire whose calls are counted by their answers."""

    def __init__(self, options: DynamoDBOptions) -> None:
        self.wire = Wire(options, sleep=self._sleep)

    async def count(self) -> int:
        return int((await self.wire.call("Query", {}))["Count"])

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@pytest.fixture
def options(server: ScriptedServer) -> DynamoDBOptions:
    """One attempt: a failure shows."""
    return DynamoDBOptions(region="eu-west-1", endpoint_url=server.url, attempts=1, read_timeout=10.0)


@pytest.fixture
async def client(options: DynamoDBOptions) -> AsyncIterator[Client]:
    client = Client(options)
    yield client
    await client.wire.close()


@pytest.fixture
async def retrying(options: DynamoDBOptions) -> AsyncIterator[Client]:
    client = Client(replace(options, attempts=2))
    yield client
    await client.wire.close()


class TestConnections:
    async def test_a_connection_is_kept_and_used_again(self, server: ScriptedServer, client: Client) -> None:
        server.scripts = [ONE, TWO]
        assert [await client.count() for _ in range(2)] == [1, 2]
        assert server.connections == 1

    async def test_a_connection_is_not_used_again_when_the_server_says_so(
        self, server: ScriptedServer, client: Client
    ) -> None:
        server.scripts = [raw_answer(b'{"Count":1}', 200, b"Connection: close"), TWO]
        assert [await client.count() for _ in range(2)] == [1, 2]
        assert server.connections == 2

    async def test_a_connection_that_the_server_closed_while_it_was_idle_is_replaced(
        self, server: ScriptedServer, retrying: Client
    ) -> None:
        server.scripts = [[*ONE, End.CLOSE], TWO]
        assert [await retrying.count() for _ in range(2)] == [1, 2]
        assert server.connections == 2

    async def test_an_answer_with_data_behind_it_is_retried_on_another_connection(
        self, server: ScriptedServer, retrying: Client
    ) -> None:
        server.scripts = [[b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"Count":1}more'], TWO]
        assert [await retrying.count() for _ in range(2)] == [2, 2]
        assert server.connections == 2

    async def test_there_are_no_more_connections_than_the_pool_allows(
        self, server: ScriptedServer, options: DynamoDBOptions
    ) -> None:
        client = Client(replace(options, pool_size=2))
        server.scripts = [ONE]
        assert await asyncio.gather(*(client.count() for _ in range(20))) == [1] * 20
        assert server.connections == 2
        await client.wire.close()

    async def test_a_call_does_not_wait_for_a_free_connection_beyond_the_timeout(
        self, server: ScriptedServer, options: DynamoDBOptions
    ) -> None:
        client = Client(replace(options, pool_size=1, read_timeout=0.2))
        server.scripts = [[]]
        # Both deadlines pass while the loop is busy. Else the first call's end might give the second its connection.
        asyncio.get_running_loop().call_later(0.1, time.sleep, 0.3)
        results = await asyncio.gather(client.count(), client.count(), return_exceptions=True)
        assert [type(result) for result in results] == [StoreUnavailable] * 2
        assert len(server.requests) == 1
        await client.wire.close()


class TestAnswers:
    async def test_an_answer_in_pieces_is_put_together(self, server: ScriptedServer, client: Client) -> None:
        server.scripts = [[b"HTTP/1.1 200", b" OK\r\nContent-Le", b"ngth: 11\r\n\r", b'\n{"Co', b'unt":7}']]
        assert await client.count() == 7

    async def test_chunks_are_joined(self, server: ScriptedServer, client: Client) -> None:
        server.scripts = [[CHUNKED + b'5\r\n{"Co', b'u\r\n6;x=y\r\nnt":7', b"}\r\n", b"0\r\n\r\n"], TWO]
        assert [await client.count() for _ in range(2)] == [7, 2]
        assert server.connections == 1


FAULTS: dict[str, Script] = {
    "no answer": [],
    "closed": [End.CLOSE],
    "reset": [End.RESET],
    "closed in the head": [b"HTTP/1.1 200 OK\r\n", End.CLOSE],
    "no end of the body": [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"],
    "closed in the body": [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", End.CLOSE],
    "reset in the body": [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", End.RESET],
    "closed in a chunk": [CHUNKED + b"5\r\nhe", End.CLOSE],
    "not HTTP": [b"not HTTP at all\r\n\r\n"],
    "length is not a number": [b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"],
}


class TestFaults:
    @pytest.mark.parametrize("script", FAULTS.values(), ids=FAULTS.keys())
    async def test_each_is_store_unavailable_and_the_next_call_gets_its_own_answer(
        self, server: ScriptedServer, options: DynamoDBOptions, script: Script
    ) -> None:
        client = Client(replace(options, read_timeout=0.3))
        server.scripts = [script, TWO]
        with pytest.raises(StoreUnavailable):
            await client.count()
        assert await client.count() == 2
        assert server.connections == 2
        await client.wire.close()

    @pytest.mark.parametrize("script", FAULTS.values(), ids=FAULTS.keys())
    async def test_each_is_retried(self, server: ScriptedServer, options: DynamoDBOptions, script: Script) -> None:
        client = Client(replace(options, attempts=3, read_timeout=0.3))
        server.scripts = [script, script, TWO]
        assert await client.count() == 2
        await client.wire.close()

    async def test_an_answer_that_is_not_json_is_store_unavailable(
        self, server: ScriptedServer, client: Client
    ) -> None:
        server.scripts = [raw_answer(b"<html>"), TWO]
        with pytest.raises(StoreUnavailable, match="not JSON"):
            await client.count()
        assert await client.count() == 2

    async def test_a_closed_port_is_store_unavailable(self, options: DynamoDBOptions) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            client = Client(replace(options, endpoint_url=f"http://127.0.0.1:{bound.getsockname()[1]}"))
            with pytest.raises(StoreUnavailable):
                await client.count()
        await client.wire.close()


class TestTls:
    @pytest.fixture
    def authority(self, tmp_path: Path) -> Authority:
        return Authority(tmp_path)

    @pytest.fixture
    async def secure(self, authority: Authority) -> AsyncIterator[ScriptedServer]:
        identity = authority.issue("dynamodb")
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(identity.certificate, identity.key)
        async with ScriptedServer().listening(tls) as server:
            yield server

    async def test_the_authorities_of_aws_ca_bundle_are_trusted(
        self, secure: ScriptedServer, options: DynamoDBOptions, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.certificate))
        client = Client(replace(options, endpoint_url=secure.url))
        secure.scripts = [ONE, TWO]
        assert [await client.count() for _ in range(2)] == [1, 2]
        assert secure.connections == 1
        await client.wire.close()

    async def test_https_proxy_tunnels_the_connections(
        self, secure: ScriptedServer, options: DynamoDBOptions, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.certificate))
        secure.scripts = [ONE, TWO]
        async with ConnectProxy().listening() as proxy:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//user:password@"))
            client = Client(replace(options, endpoint_url=secure.url))
            assert [await client.count() for _ in range(2)] == [1, 2]
            await client.wire.close()
        ((line, headers),) = proxy.requests
        assert line == f"CONNECT {secure.url.removeprefix('https://')} HTTP/1.1"
        assert headers["proxy-authorization"].startswith("Basic ")
        assert "authorization" not in headers
        assert [request.target for request in secure.requests] == ["/", "/"]
        assert all("proxy-authorization" not in request.headers for request in secure.requests)

    async def test_a_certificate_of_an_unknown_authority_is_store_unavailable(
        self, secure: ScriptedServer, options: DynamoDBOptions
    ) -> None:
        client = Client(replace(options, endpoint_url=secure.url))
        with pytest.raises(StoreUnavailable):
            await client.count()
        assert secure.requests == []
        await client.wire.close()
