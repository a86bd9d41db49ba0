"""The client's life, against a server of the test's own that says whatever it wants."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from parley_client import Client, Ended
from websockets.asyncio.server import ServerConnection, serve

Talk = Callable[[ServerConnection], Awaitable[None]]
HELLO = {"type": "connected", "connection_id": "c", "user_id": "ada", "session_id": "s", "heartbeat_interval": 0.02}


async def write(socket: ServerConnection, **frame: Any) -> None:
    await socket.send(json.dumps(frame))


async def read(socket: ServerConnection, kind: str) -> dict[str, Any]:
    """The next frame of this kind; others go by."""
    while True:
        frame: dict[str, Any] = json.loads(await socket.recv())
        if frame["type"] == kind:
            return frame


@asynccontextmanager
async def server(*talks: Talk) -> AsyncIterator[str]:
    """One talk for each connection in turn; the last repeats."""
    waiting = list(talks)

    async def handle(socket: ServerConnection) -> None:
        await write(socket, **HELLO)
        await (waiting.pop(0) if len(waiting) > 1 else waiting[0])(socket)

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
    async def test_what_was_not_acknowledged_is_sent_again_under_the_same_id(self) -> None:
        seen: list[str] = []

        async def break_off(socket: ServerConnection) -> None:
            seen.append((await read(socket, "send_message"))["client_message_id"])
            socket.transport.abort()

        async def answer(socket: ServerConnection) -> None:
            draft = await read(socket, "send_message")
            seen.append(draft["client_message_id"])
            about = {"client_message_id": draft["client_message_id"], "chat_id": "chat"}
            await write(socket, type="ack", message_id="m", sequence=1, created_at="", duplicate=True, **about)
            await socket.wait_closed()

        async with server(break_off, answer) as url, client(url) as ada:
            sent = await asyncio.wait_for(ada.send("chat", "hi"), 10)
        assert sent["duplicate"]
        assert len(seen) == 2
        assert len(set(seen)) == 1

    async def test_an_own_message_is_shown_like_any_other(self) -> None:
        async with server(acknowledge) as url, client(url) as ada:
            await asyncio.wait_for(ada.send("chat", "hi"), 10)
            (message,) = await ada.read(1)
        assert (message["sender_id"], message["sequence"], message["content"]) == ("ada", 1, "hi")

    async def test_a_failing_source_of_tokens_is_asked_again(self) -> None:
        failures = [OSError("no network"), RuntimeError("no luck")]

        async def token() -> str:
            if failures:
                raise failures.pop()
            return "t"

        async with server(acknowledge) as url, client(url, token=token) as ada:
            await asyncio.wait_for(ada.send("chat", "hi"), 10)
        assert failures == []


class TestTokens:
    async def test_a_fresh_token_is_shown_to_the_living_connection(self) -> None:
        tokens = ["first"]
        shown: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def token() -> str:
            return tokens[-1]

        async def listen(socket: ServerConnection) -> None:
            tokens.append("second")
            shown.set_result((await read(socket, "authenticate"))["access_token"])
            await socket.wait_closed()

        async with server(listen) as url, client(url, token=token):
            assert await asyncio.wait_for(shown, 10) == "second"

    async def test_a_refused_token_is_replaced_where_there_is_another(self) -> None:
        async def refuse(socket: ServerConnection) -> None:
            await socket.close(4401)

        async def token() -> str:
            return "t"

        async with server(refuse, acknowledge) as url, client(url, token=token) as ada:
            await asyncio.wait_for(ada.send("chat", "hi"), 10)
        assert ada.connections == 2


class TestTheEnd:
    @pytest.mark.parametrize("code", [4401, 4403])
    async def test_nobody_waits_for_a_server_that_will_not_have_the_client_back(self, code: int) -> None:
        async def refuse(socket: ServerConnection) -> None:
            await socket.close(code)

        async with server(refuse) as url, client(url) as ada:
            with pytest.raises(Ended) as ended:
                await asyncio.wait_for(ada.send("chat", "hi"), 10)
            assert ended.value.code == code
            for _ in range(2):
                with pytest.raises(Ended):
                    await ada.read(1)
