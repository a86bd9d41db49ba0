"""Typing: limited where it is sent, bounded and ended where it is shown."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast
from unittest.mock import Mock

import orjson
import pytest

from chats.errors import ChatNotFound
from delivery.gateway import typing
from delivery.gateway.broadcast import Broadcast, LiveFrame
from delivery.gateway.typing import (
    FORWARD_EVERY,
    MAX_CHATS,
    MAX_TYPISTS,
    OVER_AFTER,
    STARTS,
    TypingDelivery,
    TypingForwarder,
)
from foundation.kernel.ids import ChatId, ConnectionId, UserId

ADA = UserId("ada")
CHAT = ChatId("chat")
PHONE, LAPTOP = ConnectionId("gw.phone"), ConnectionId("gw.laptop")


class Forwarding:
    """A forwarder with a settable clock, and what it has sent."""

    def __init__(self, *, is_member: bool = True) -> None:
        self.now = 100.0
        self.checks = 0
        self.sent: list[LiveFrame] = []
        self.member = is_member
        self.gate: asyncio.Event | None = None
        self.forwarder = TypingForwarder(cast(Broadcast, self), is_member=self.is_member, monotonic=lambda: self.now)

    async def send(self, frame: LiveFrame) -> None:
        self.sent.append(frame)

    async def is_member(self, chat_id: ChatId, user_id: UserId) -> bool:
        self.checks += 1
        gate, self.gate = self.gate, None
        if gate is not None:
            await gate.wait()
        return self.member

    @asynccontextmanager
    async def slow_read(self) -> AsyncIterator[None]:
        """The next read of a membership ends with the block, after those that begin in it."""
        self.gate = gate = asyncio.Event()
        yield
        for _ in range(5):
            await asyncio.sleep(0)
        gate.set()

    def is_due(
        self, *, active: bool = True, connection: ConnectionId = PHONE, user: UserId = ADA, chat: ChatId = CHAT
    ) -> bool:
        return self.forwarder.is_due(connection, user, chat, active=active)


class TestForwarding:
    def test_a_start_goes_on_every_two_seconds_for_each_chat_and_connection(self) -> None:
        forwarding = Forwarding()
        assert [forwarding.is_due() for _ in range(3)] == [True, False, False]
        assert forwarding.is_due(connection=LAPTOP)
        assert forwarding.is_due(chat=ChatId("other"))
        forwarding.now += FORWARD_EVERY
        assert forwarding.is_due()

    def test_an_end_goes_on_once_after_a_start(self) -> None:
        forwarding = Forwarding()
        assert not forwarding.is_due(active=False)
        assert forwarding.is_due()
        assert [forwarding.is_due(active=False) for _ in range(2)] == [True, False]
        assert not forwarding.is_due()

    def test_what_a_connection_leaves_behind_is_bounded(self) -> None:
        forwarding = Forwarding()
        for number in range(2 * MAX_CHATS):
            forwarding.is_due(chat=ChatId(str(number)))
            forwarding.now += 1
        assert len(forwarding.forwarder._by_connection[PHONE]) == MAX_CHATS

    def test_nobody_escapes_the_pace_by_many_chats_or_connections(self) -> None:
        forwarding = Forwarding()
        chats = [ChatId(str(number)) for number in range(MAX_CHATS + 1)]
        assert sum(forwarding.is_due(chat=chat) for _ in range(100) for chat in chats) == STARTS.burst
        forwarding.now += 5
        assert sum(forwarding.is_due(chat=chat) for _ in range(100) for chat in chats) == 5
        assert not forwarding.is_due(connection=LAPTOP)
        assert forwarding.is_due(connection=LAPTOP, user=UserId("bob"))

    def test_what_is_dropped_has_ended_by_itself(self) -> None:
        forwarding, started = Forwarding(), dict[ChatId, float]()
        for number in range(400):
            chat = ChatId(str(number))
            if forwarding.is_due(chat=chat):
                started[chat] = forwarding.now
            forwarding.now += 0.1
            known = forwarding.forwarder._by_connection[PHONE]
            assert all(forwarding.now - at > OVER_AFTER for chat, at in started.items() if chat not in known)

    async def test_the_membership_is_remembered_for_half_a_minute(self) -> None:
        forwarding = Forwarding()
        for _ in range(3):
            await forwarding.forwarder.forward(ADA, CHAT, active=True)
        assert forwarding.checks == 1
        forwarding.now += typing.MEMBERSHIP_TTL
        await forwarding.forwarder.forward(ADA, CHAT, active=True)
        assert forwarding.checks == 2
        assert {frame.except_user for frame in forwarding.sent} == {ADA}

    async def test_an_end_does_not_overtake_the_start_whose_membership_is_still_being_read(self) -> None:
        forwarding = Forwarding()
        async with forwarding.slow_read():
            start = asyncio.ensure_future(forwarding.forwarder.forward(ADA, CHAT, active=True))
            await asyncio.sleep(0)
            end = asyncio.ensure_future(forwarding.forwarder.forward(ADA, CHAT, active=False))
        await asyncio.gather(start, end)
        assert ([frame.frame["active"] for frame in forwarding.sent], forwarding.checks) == ([True, False], 1)

    async def test_nor_does_the_end_of_the_connection(self) -> None:
        forwarding = Forwarding()
        assert forwarding.is_due()
        async with forwarding.slow_read():
            start = asyncio.ensure_future(forwarding.forwarder.forward(ADA, CHAT, active=True))
            await asyncio.sleep(0)
            forwarding.forwarder.end(PHONE, ADA)
        await asyncio.gather(start, *forwarding.forwarder._endings)
        assert [frame.frame["active"] for frame in forwarding.sent] == [True, False]

    async def test_one_users_start_does_not_wait_for_anothers_and_nothing_is_left_behind(self) -> None:
        forwarding, bob = Forwarding(), UserId("bob")
        async with forwarding.slow_read():
            start = asyncio.ensure_future(forwarding.forwarder.forward(ADA, CHAT, active=True))
            await asyncio.sleep(0)
            await forwarding.forwarder.forward(bob, CHAT, active=True)
        await start
        assert [frame.except_user for frame in forwarding.sent] == [bob, ADA]
        assert not forwarding.forwarder._locks

    async def test_a_stranger_is_refused_each_time(self) -> None:
        forwarding = Forwarding(is_member=False)
        for _ in range(2):
            with pytest.raises(ChatNotFound):
                await forwarding.forwarder.forward(ADA, CHAT, active=True)
        assert (forwarding.checks, forwarding.sent) == (2, [])

    async def test_who_was_removed_is_refused_at_once(self) -> None:
        forwarding = Forwarding()
        await forwarding.forwarder.forward(ADA, CHAT, active=True)
        forwarding.member = False
        forwarding.forwarder.member_left(CHAT, ADA)
        with pytest.raises(ChatNotFound):
            await forwarding.forwarder.forward(ADA, CHAT, active=True)
        assert len(forwarding.sent) == 1

    async def test_nothing_of_a_stranger_reaches_a_chat_when_the_connection_ends(self) -> None:
        forwarding = Forwarding(is_member=False)
        assert forwarding.is_due()
        forwarding.forwarder.end(PHONE, ADA)
        await asyncio.gather(*forwarding.forwarder._endings)
        assert (forwarding.checks, forwarding.sent) == (1, [])

    async def test_a_connection_that_ends_types_no_more(self) -> None:
        forwarding = Forwarding()
        assert forwarding.is_due()
        forwarding.forwarder.end(PHONE, ADA)
        await asyncio.sleep(0)
        assert [frame.frame["active"] for frame in forwarding.sent] == [False]
        forwarding.forwarder.end(PHONE, ADA)
        await asyncio.sleep(0)
        assert (len(forwarding.sent), forwarding.forwarder._by_connection) == (1, {})


class Shown:
    """A socket, and what it was shown."""

    def __init__(self) -> None:
        self.socket = Mock()
        self.delivery = TypingDelivery()

    async def types(self, user: str, *, active: bool = True) -> None:
        frame = {"type": "typing", "chat_id": CHAT, "user_id": user, "active": active}
        await self.delivery.deliver(frame, [self.socket])

    @property
    def frames(self) -> list[tuple[str, bool]]:
        sent = [orjson.loads(call.args[0].payload) for call in self.socket.deliver.call_args_list]
        return [(frame["user_id"], frame["active"]) for frame in sent]


class TestShowing:
    async def test_at_most_three_typists_are_shown_and_one_that_ends_makes_room(self) -> None:
        shown = Shown()
        for user in ("a", "b", "c", "d"):
            await shown.types(user)
        assert len(shown.frames) == MAX_TYPISTS
        await shown.types("d", active=False)
        await shown.types("a", active=False)
        await shown.types("d")
        assert shown.frames[MAX_TYPISTS:] == [("a", False), ("d", True)]

    async def test_typing_that_is_not_renewed_ends(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(typing, "OVER_AFTER", 0.0)
        shown = Shown()
        await shown.types("a")
        async with asyncio.timeout(5):
            while len(shown.frames) < 2:  # noqa: ASYNC110 - a mock, not an event
                await asyncio.sleep(0)
        assert shown.frames == [("a", True), ("a", False)]
        assert shown.delivery._typists == {}
