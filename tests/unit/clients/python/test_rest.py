"""Answers that break off."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from parley_client import RequestFailed
from parley_client.rest import request


@asynccontextmanager
async def server(status: str) -> AsyncIterator[str]:
    """Answer with the first byte of a longer body and close the connection."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 100\r\n\r\n{{".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


class TestAnAnswerThatBreaksOff:
    async def test_it_is_no_answer(self) -> None:
        async with server("200 OK") as url:
            with pytest.raises(OSError, match="broke off"):
                await request(url, "GET", "/api/chats", token="t")

    async def test_the_status_of_an_error_is_known_without_its_body(self) -> None:
        async with server("503 Service Unavailable") as url:
            with pytest.raises(RequestFailed) as failed:
                await request(url, "GET", "/api/chats", token="t")
        assert (failed.value.status, failed.value.code) == (503, "internal_error")
