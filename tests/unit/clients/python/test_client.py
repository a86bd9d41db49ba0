"""The client against a scripted server."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from parley_client import Client, Ended
from websockets.asyncio.server import ServerConnection, serve

Handler = Callable[[ServerConnection], Awaitable[None]]
HELLO = {"type": "connected", "connection_id": "c", "user_id": "ada", "session_id": "s", "heartbeat_interval": 0.02}


async def write(socket: ServerConnection, **frame: Any) -> None:
    await socket.send(json.dumps(frame))


async def read(socket: ServerConnection, kind: str) -> dict[str, Any]:
    """Return the next frame of this kind and skip the others."""
    while True:
        frame: dict[str, Any] = json.loads(await socket.recv())
        if frame["type"] == kind:
            return frame


@asynccontextmanager
async def server(*handlers: Handler) -> AsyncIterator[str]:
    """Serve each connection with the next handler; the last one repeats."""
    remaining = list(handlers)

    async def handle(socket: ServerConnection) -> None:
        await write(socket, **HELLO)
        await (remaining.pop(0) if len(remaining) > 1 else remaining[0])(socket)

    async with serve(handle, "127.0.0.1", 0) as listening:
        yield f"ws://127.0.0.1:{listening.sockets[0].getsockname()[1]}/ws"


def client(url: str, **options: Any) -> Client:
    return Client(url, **{"token": "t", "first_pause": 0.01, "longest_pause": 0.02, **options})


async def acknowledge(socket: ServerConnection) -> None:
    draft = await read(socket, "send_message")
    about = {"client_message_id": draft["client_message_id"], "chat_id": draft["chat_id"]}
    await write(socket, type="ack", message_id="m", sequence=1, created_at="", duplicate=False, **about)
    await socket.wait_closed()


class TestReconnecting:
    async def test_an_unacknowledged_message_is_resent_under_the_same_id(self) -> None:
        seen: list[str] = []

        async def drop(socket: ServerConnection) -> None:
            seen.append((await read(socket, "send_message"))["client_message_id"])
            socket.transport.abort()

        async def answer(socket: ServerConnection) -> None:
            draft = await read(socket, "send_message")
            seen.append(draft["client_message_id"])
            about = {"client_message_id": draft["client_message_id"], "chat_id": "chat"}
            await write(socket, type="ack", message_id="m", sequence=1, created_at="", duplicate=True, **about)
            await socket.wait_closed()

        async with server(drop, answer) as url, client(url) as ada:
            sent = await asyncio.wait_for(ada.send("chat", "hi"), 10)
        assert sent["duplicate"]
        assert len(seen) == 2
        assert len(set(seen)) == 1

    async def test_an_own_message_is_delivered_like_any_other(self) -> None:
        async with server(acknowledge) as url, client(url) as ada:
            await asyncio.wait_for(ada.send("chat", "hi"), 10)
            (message,) = await ada.read(1)
        assert (message["sender_id"], message["sequence"], message["content"]) == ("ada", 1, "hi")

    async def test_a_failing_token_callable_is_called_again(self) -> None:
        failures = [OSError("no network"), RuntimeError("no luck")]

        async def token() -> str:
            if failures:
                raise failures.pop()
            return "t"

        async with server(acknowledge) as url, client(url, token=token) as ada:
            await asyncio.wait_for(ada.send("chat", "hi"), 10)
        assert failures == []


class TestTokens:
    async def test_a_fresh_token_is_sent_over_the_open_connection(self) -> None:
        tokens = ["first"]
        received: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def token() -> str:
            return tokens[-1]

        async def listen(socket: ServerConnection) -> None:
            tokens.append("second")
            received.set_result((await read(socket, "authenticate"))["access_token"])
            await socket.wait_closed()

        async with server(listen) as url, client(url, token=token):
            assert await asyncio.wait_for(received, 10) == "second"

    async def test_a_rejected_token_is_replaced_if_the_token_is_a_callable(self) -> None:
        async def reject(socket: ServerConnection) -> None:
            await socket.close(4401)

        async def token() -> str:
            return "t"

        async with server(reject, acknowledge) as url, client(url, token=token) as ada:
            await asyncio.wait_for(ada.send("chat", "hi"), 10)
        assert ada.connections == 2


class TestEndOfSession:
    @pytest.mark.parametrize("code", [4401, 4403])
    async def test_sends_and_reads_raise_ended(self, code: int) -> None:
        async def reject(socket: ServerConnection) -> None:
            await socket.close(code)

        async with server(reject) as url, client(url) as ada:
            with pytest.raises(Ended) as ended:
                await asyncio.wait_for(ada.send("chat", "hi"), 10)
            assert ended.value.code == code
            for _ in range(2):
                with pytest.raises(Ended):
                    await ada.read(1)
            with pytest.raises(Ended):
                await asyncio.wait_for(ada.send("chat", "after the end"), 10)
