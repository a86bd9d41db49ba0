"""`rediss://`: the URL alone turns TLS on, for every client.

The tests' Redis is built without TLS, so a proxy in front of it terminates TLS.
"""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.utils.module_loading import import_string

from engines.ports import LOOPBACK
from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis.client import RedisOptions, connect, connect_async, naming_failures
from tests.real.certificates import Authority, Identity


class TlsProxy:
    """Accepts TLS connections and forwards them to a server without TLS."""

    def __init__(self, port: int, identity: Identity) -> None:
        self._port = port
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(identity.certificate, identity.key)
        self._loop = asyncio.new_event_loop()

    @contextmanager
    def listening(self) -> Iterator[int]:
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        starting = asyncio.start_server(self._serve, LOOPBACK, 0, ssl=self._context)
        server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(10)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            self._loop.call_soon_threadsafe(server.close)
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(LOOPBACK, self._port)
        await asyncio.gather(_forward(reader, server_writer), _forward(server_reader, writer))


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secure_address(authority: Authority, redis_url: str) -> Iterator[str]:
    """The URL without an authority to trust."""
    proxy = TlsProxy(urlsplit(redis_url).port or 0, authority.issue("redis"))
    with proxy.listening() as port:
        yield f"rediss://{LOOPBACK}:{port}/0"


@pytest.fixture
def secure_url(secure_address: str, authority: Authority) -> str:
    return f"{secure_address}?ssl_ca_certs={authority.certificate}"


class TestTls:
    def test_the_client_for_threads(self, secure_url: str) -> None:
        with connect(RedisOptions(url=secure_url)) as client:
            client.set("tls:threads", "yes", ex=10)
            assert client.get("tls:threads") == b"yes"

    async def test_the_client_for_the_event_loop(self, secure_url: str) -> None:
        async with connect_async(RedisOptions(url=secure_url)) as client:
            await client.set("tls:loop", "yes", ex=10)
            assert await client.get("tls:loop") == b"yes"

    async def test_the_channel_layer(self, secure_url: str) -> None:
        layer = import_string(str(settings.CHANNEL_LAYERS["default"]["BACKEND"]))(hosts=[secure_url])
        channel = await layer.new_channel()
        await layer.group_add("everybody", channel)
        await layer.group_send("everybody", {"type": "news"})
        assert await asyncio.wait_for(layer.receive(channel), 10) == {"type": "news"}
        await layer.flush()

    def test_a_server_with_a_certificate_of_an_unknown_authority_is_away(
        self, secure_address: str, tmp_path: Path
    ) -> None:
        stranger = Authority(tmp_path, name="stranger")
        client = connect(RedisOptions(url=f"{secure_address}?ssl_ca_certs={stranger.certificate}"))
        with client, pytest.raises(StoreUnavailable), naming_failures():
            client.ping()
