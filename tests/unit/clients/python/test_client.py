"""The client against a scripted server."""

import asyncio
import json

import pytest
from parley_client import Ended
from websockets.asyncio.server import ServerConnection

from tests.unit.clients.python.scripted import answer, client, read, server, write

MESSAGE = {"type": "message", "kind": "message", "chat_id": "chat", "sequence": 1, "sender_id": "ben", "content": "hi"}


async def acknowledge(socket: ServerConnection) -> None:
    await answer(socket, "send_message", sequence=1)
    await socket.wait_closed()


class TestReconnecting:
    async def test_an_unacknowledged_message_is_resent_under_the_same_id(self) -> None:
        seen: list[str] = []

        async def drop(socket: ServerConnection) -> None:
            seen.append((await read(socket, "send_message"))["client_message_id"])
            socket.transport.abort()

        async def respond(socket: ServerConnection) -> None:
            await answer(socket, "send_message", sequence=1, duplicate=True)
            await socket.wait_closed()

        async with server(drop, respond) as url, client(url) as ada:
            sent = await asyncio.wait_for(ada.send("chat", "hi"), 10)
        assert sent["duplicate"]
        assert seen == [sent["client_message_id"]]

    async def test_an_own_message_is_delivered_like_any_other(self) -> None:
        async with server(acknowledge) as url, client(url) as ada:
            await asyncio.wait_for(ada.send("chat", "hi"), 10)
            (message,) = await ada.read(1)
        assert (message["sender_id"], message["sequence"], message["content"]) == ("ada", 1, "hi")

    async def test_a_frame_of_a_hundred_long_messages_is_received(self) -> None:
        messages = [{**MESSAGE, "sequence": number, "content": "\x01" * 4096} for number in range(1, 101)]

        async def respond(socket: ServerConnection) -> None:
            await write(socket, type="message_batch", chat_id="chat", messages=messages)
            await socket.wait_closed()

        async with server(respond) as url, client(url) as ada:
            assert len(await ada.read(100)) == 100

    async def test_a_failing_token_callable_is_called_again(self) -> None:
        failures = [OSError("no network"), RuntimeError("no luck")]

        async def token() -> str:
            if failures:
                raise failures.pop()
            return "t"

        async with server(acknowledge) as url, client(url, token=token) as ada:
            await asyncio.wait_for(ada.send("chat", "hi"), 10)
        assert failures == []

    async def test_a_server_that_was_away_for_hours_is_found_again(self) -> None:
        failures = iter(range(1_100))

        async def token() -> str:
            if next(failures, None) is not None:
                raise ConnectionError("the server is away")
            return "t"

        async with server(acknowledge) as url, client(url, token=token, longest_pause=0.0) as ada:
            async with asyncio.timeout(10):
                await ada.connected.wait()


class TestSync:
    async def test_an_answer_that_brings_nothing_is_asked_for_again_later(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("parley_client.client.SYNC_RETRY", 0.01)

        async def respond(socket: ServerConnection) -> None:
            for messages in ([], [MESSAGE]):
                await read(socket, "sync_request")
                await write(socket, type="sync_batch", chat_id="chat", messages=messages, has_more=not messages)
            await socket.wait_closed()

        async with server(respond) as url, client(url) as ada:
            ada.follow("chat")
            (message,) = await ada.read(1)
        assert message["content"] == "hi"

    async def test_until_then_neither_it_nor_a_gap_starts_another_sync(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("parley_client.client.SYNC_RETRY", 600)
        kinds: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()

        async def respond(socket: ServerConnection) -> None:
            await read(socket, "sync_request")
            await write(socket, type="sync_batch", chat_id="chat", messages=[], has_more=True)
            await write(socket, **{**MESSAGE, "sequence": 7})
            frames = [json.loads(await socket.recv()) for _ in range(3)]
            kinds.set_result([frame["type"] for frame in frames])
            await socket.wait_closed()

        async with server(respond) as url, client(url, acknowledge=False) as ada:
            ada.follow("chat")
            assert await asyncio.wait_for(kinds, 10) == ["heartbeat"] * 3


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
