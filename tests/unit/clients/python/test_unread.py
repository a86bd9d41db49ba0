"""What waits for a reader is bounded, and a reader that is too slow misses nothing."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from parley_client import Client, Ended
from parley_client.client import KEPT_FRAMES
from parley_client.unread import Unread
from websockets.asyncio.server import ServerConnection

from tests.unit.clients.python.scripted import becomes, client, read, server, write

CAPACITY = 10
PAGE = 3


def entry(sequence: int, chat_id: str = "chat") -> dict[str, Any]:
    return {"chat_id": chat_id, "sequence": sequence, "message_id": f"msg_{sequence}", "content": str(sequence)}


def entries(first: int, last: int, chat_id: str = "chat") -> list[dict[str, Any]]:
    return [entry(sequence, chat_id) for sequence in range(first, last + 1)]


class TestUnread:
    async def take(self, unread: Unread, count: int) -> list[int]:
        return [(await asyncio.wait_for(unread.take(), 10))["sequence"] for _ in range(count)]

    async def test_what_does_not_fit_is_taken_again_when_there_is_room(self) -> None:
        unread = Unread(CAPACITY)
        unread.put("chat", entries(1, 15))
        assert unread.resumable() == []
        assert unread.first_missing_after("chat", 15) == 15
        assert await self.take(unread, CAPACITY) == list(range(1, 11))
        assert unread.resumable() == ["chat"]
        assert unread.first_missing_after("chat", 15) == 10
        unread.put("chat", entries(16, 16))
        unread.put_again("chat", entries(11, 13), last_seen=16)
        unread.put_again("chat", entries(14, 16), last_seen=16)
        unread.put("chat", entries(17, 17))
        assert unread.resumable() == []
        assert await self.take(unread, 7) == list(range(11, 18))

    async def test_pages_that_overlap_or_do_not_follow_are_left_out(self) -> None:
        unread = Unread(CAPACITY)
        unread.put("chat", entries(1, 15))
        await self.take(unread, CAPACITY)
        unread.put_again("chat", entries(13, 15), last_seen=15)
        unread.put_again("chat", entries(9, 15), last_seen=15)
        unread.put_again("chat", entries(9, 15), last_seen=15)
        assert await self.take(unread, 5) == list(range(11, 16))

    async def test_a_chat_that_can_be_read_no_more_is_forgotten(self) -> None:
        unread = Unread(CAPACITY)
        unread.put("chat", entries(1, 15))
        await self.take(unread, CAPACITY)
        unread.give_up("chat")
        assert unread.resumable() == []


class Pushing:
    """Pushes entries of some chats, interleaved, and answers syncs by pages."""

    def __init__(self, last: dict[str, int]) -> None:
        self.last = last

    async def __call__(self, socket: ServerConnection) -> None:
        pushed = [chat_id for chat_id, last in self.last.items() for _ in range(last)]
        random.Random(1).shuffle(pushed)
        reached = dict.fromkeys(self.last, 0)
        for chat_id in pushed:
            reached[chat_id] += 1
            await write(socket, type="message", **entry(reached[chat_id], chat_id))
        while True:
            asked = await read(socket, "sync_request")
            await self.answer(socket, asked["chat_id"], asked["last_acked_sequence"])

    async def answer(self, socket: ServerConnection, chat_id: str, after: int) -> None:
        last = self.last[chat_id]
        page: Sequence[dict[str, Any]] = entries(after + 1, min(after + PAGE, last), chat_id)
        more = after + PAGE < last
        batch = {"chat_id": chat_id, "messages": page, "has_more": more, "latest_sequence": last}
        await write(socket, type="sync_batch", **batch)


def has_got(ada: Client, last: dict[str, int]) -> bool:
    timelines = ada._timelines
    return all(chat_id in timelines and timelines[chat_id].last_seen == end for chat_id, end in last.items())


class TestSlowReaders:
    async def test_every_entry_is_read_once_and_in_order_and_few_wait(self) -> None:
        last = {f"chat{number}": 40 for number in range(6)}
        async with server(Pushing(last)) as url:
            ada = client(url)
            ada._unread = Unread(CAPACITY)
            async with ada:
                await becomes(lambda: has_got(ada, last))
                assert ada._unread._queue.qsize() == CAPACITY
                found: dict[str, list[int]] = {chat_id: [] for chat_id in last}
                for message in await ada.read(6 * 40):
                    found[message["chat_id"]].append(message["sequence"])
        assert found == {chat_id: list(range(1, 41)) for chat_id in last}

    async def test_a_refused_sync_keeps_nobody_waiting(self) -> None:
        class Refusing(Pushing):
            async def answer(self, socket: ServerConnection, chat_id: str, after: int) -> None:
                if chat_id == "sound":
                    await super().answer(socket, chat_id, after)
                else:
                    await write(socket, type="error", code="chat_not_found", retryable=False, chat_id=chat_id)

        last = {"sound": 40, **{f"gone{number}": 40 for number in range(6)}}
        async with server(Refusing(last)) as url:
            ada = client(url)
            ada._unread = Unread(CAPACITY)
            async with ada:
                await becomes(lambda: has_got(ada, last))
                found: list[int] = []
                async with asyncio.timeout(20):
                    while len(found) < 40:
                        (message,) = await ada.read(1)
                        found += [message["sequence"]] if message["chat_id"] == "sound" else []
        assert found == list(range(1, 41))

    async def test_the_end_is_told_behind_what_waits(self) -> None:
        unread = Unread(CAPACITY)
        unread.put("chat", entries(1, 15))
        unread.end(Ended(4403))
        for _ in range(CAPACITY):
            await unread.take()
        for _ in range(2):
            with pytest.raises(Ended):
                await unread.take()


class TestKeptFrames:
    async def test_of_notices_and_errors_the_last_ones_are_kept(self) -> None:
        async def push(socket: ServerConnection) -> None:
            for number in range(KEPT_FRAMES + 5):
                await write(socket, type="membership_changed", chat_id="chat", number=number)
                await write(socket, type="error", code="invalid_request", retryable=False, number=number)
            await socket.wait_closed()

        async with server(push) as url, client(url) as ada:
            await becomes(lambda: bool(ada.errors) and ada.errors[-1]["number"] == KEPT_FRAMES + 4)
            for kept in (ada.notices, ada.errors):
                assert [frame["number"] for frame in kept] == list(range(5, KEPT_FRAMES + 5))
