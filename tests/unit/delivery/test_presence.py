"""Presence for connections that watch it."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, cast

import orjson
import pytest

from accounts.domain import Visibility
from chats.errors import ChatNotFound
from delivery.gateway import presence
from delivery.gateway.frames import Frame
from delivery.gateway.presence import MAX_WATCHED, PresenceWatchers
from delivery.services.presence import Presence, Status
from delivery.services.privacy import PrivacySettings
from foundation.kernel.errors import Invalid, Unavailable
from foundation.kernel.ids import ChatId, ConnectionId, UserId

ADA, BOB, EVE = UserId("ada"), UserId("bob"), UserId("eve")
CHAT = ChatId("chat")
SOCKET = ConnectionId("gw.ada")
CAROL = UserId("carol")


class FakePresence:
    """Settings too. `fails` is how many reads of `last_seen` fail; `on_visible` is called during a refresh."""

    def __init__(self) -> None:
        self.online: set[UserId] = set()
        self.members = {ADA, BOB, CAROL}
        self.hiding: set[UserId] = set()
        self.fails = 0
        self.asked: list[tuple[ChatId, UserId]] = []
        self.on_visible: Callable[[], Awaitable[None]] | None = None

    async def members_among(self, chat_id: ChatId, viewer_id: UserId, user_ids: Iterable[UserId]) -> set[UserId]:
        await asyncio.sleep(0)  # as a read of the store
        if viewer_id not in self.members:
            raise ChatNotFound
        return self.members & {viewer_id, *user_ids}

    async def sharing(self, lists: Sequence[tuple[ChatId, UserId, Collection[UserId]]]) -> list[set[UserId]]:
        self.asked += [(chat_id, viewer_id) for chat_id, viewer_id, _ in lists]
        return [
            self.members & {viewer_id, *user_ids} if viewer_id in self.members else set()
            for _, viewer_id, user_ids in lists
        ]

    async def statuses(self, viewer_id: UserId, user_ids: Collection[UserId]) -> dict[UserId, Status]:
        return {user_id: Status(user_id, user_id in self.online) for user_id in user_ids}

    async def visible_among(self, user_ids: Collection[UserId]) -> set[UserId]:
        visible = (self.online - self.hiding) & set(user_ids)
        if self.on_visible is not None:
            await self.on_visible()
        return visible

    async def last_seen_of(self, user_ids: Collection[UserId]) -> dict[UserId, Status]:
        if self.fails:
            self.fails -= 1
            raise Unavailable("the store is away")
        return {user_id: Status(user_id) for user_id in user_ids}

    async def of(self, user_ids: Iterable[UserId]) -> dict[UserId, Visibility]:
        return {user_id: Visibility(show_presence=user_id not in self.hiding) for user_id in user_ids}


class Watching:
    """Ada's connection, and Carol's at the same gateway."""

    def __init__(self) -> None:
        self.now = 100.0
        self.presence = FakePresence()
        self.sent: list[tuple[str, str]] = []
        self.sent_to_carol: list[tuple[str, str]] = []
        self.watchers = PresenceWatchers(
            cast(Presence, self.presence),
            privacy=cast(PrivacySettings, self.presence),
            monotonic=lambda: self.now,
        )

    def deliver(self, frame: Frame) -> None:
        shown = orjson.loads(frame.payload)
        self.sent.append((shown["user_id"], shown["status"]))

    async def watch(self, *user_ids: UserId, chat_id: ChatId = CHAT) -> None:
        await self.watchers.watch(SOCKET, ADA, self.deliver, chat_id=chat_id, user_ids=user_ids)

    async def watch_as_carol(self, *user_ids: UserId) -> None:
        def deliver(frame: Frame) -> None:
            shown = orjson.loads(frame.payload)
            self.sent_to_carol.append((shown["user_id"], shown["status"]))

        await self.watchers.watch(ConnectionId("gw.carol"), CAROL, deliver, chat_id=CHAT, user_ids=user_ids)


@pytest.fixture
def watching(monkeypatch: Any) -> Watching:
    monkeypatch.setattr(presence, "REFRESH_EVERY", 3600.0)
    return Watching()


async def test_the_status_is_sent_at_once_and_later_only_what_changes(watching: Watching) -> None:
    await watching.watch(BOB, EVE)
    assert watching.sent == [(BOB, "offline")]  # Eve is not in the chat
    for online in (set(), {BOB}, {BOB}, set[UserId]()):
        watching.presence.online = online
        await watching.watchers.refresh()
    assert watching.sent[1:] == [(BOB, "online"), (BOB, "offline")]


async def test_what_was_sent_at_once_is_no_change(watching: Watching) -> None:
    watching.presence.online = {BOB}
    await watching.watch(BOB)
    await watching.watchers.refresh()
    assert watching.sent == [(BOB, "online")]


async def test_a_change_that_another_watcher_was_shown_at_once_is_a_change_for_the_first(watching: Watching) -> None:
    await watching.watch(BOB)
    watching.presence.online = {BOB}
    await watching.watch_as_carol(BOB)
    await watching.watchers.refresh()
    assert watching.sent == [(BOB, "offline"), (BOB, "online")]
    assert watching.sent_to_carol == [(BOB, "online")]


async def test_a_change_that_could_not_be_sent_is_sent_by_the_next_round(watching: Watching) -> None:
    watching.presence.online = {BOB}
    await watching.watch(BOB)
    watching.presence.online = set()
    watching.presence.fails = 1
    with pytest.raises(Unavailable):
        await watching.watchers.refresh()
    await watching.watchers.refresh()
    assert watching.sent == [(BOB, "online"), (BOB, "offline")]


async def test_who_is_shown_in_the_midst_of_a_round_is_not_gone(watching: Watching) -> None:
    await watching.watch(CAROL)

    async def watch_bob() -> None:
        watching.presence.on_visible = None
        watching.presence.online = {BOB}
        await watching.watch(BOB, CAROL)

    watching.presence.on_visible = watch_bob
    for _ in range(2):
        await watching.watchers.refresh()
    assert [status for user_id, status in watching.sent if user_id == BOB] == ["online"]


async def test_who_begins_to_hide_sees_everybody_go_and_sees_them_again_afterwards(watching: Watching) -> None:
    watching.presence.online = {BOB}
    await watching.watch(BOB)
    for hiding in ({ADA}, set[UserId]()):
        watching.presence.hiding = hiding
        watching.watchers.privacy_changed({ADA})
        for _ in range(2):
            await watching.watchers.refresh()
    assert watching.sent == [(BOB, "online"), (BOB, "offline"), (BOB, "online")]


async def test_who_is_away_and_begins_to_hide_is_shown_again_without_the_time(watching: Watching) -> None:
    await watching.watch(BOB)
    watching.presence.hiding = {BOB}
    watching.watchers.privacy_changed({BOB})
    watching.presence.fails = 1
    with pytest.raises(Unavailable):
        await watching.watchers.refresh()
    for _ in range(2):
        await watching.watchers.refresh()
    assert watching.sent == [(BOB, "offline"), (BOB, "offline")]


async def test_a_lost_notice_of_a_viewer_who_hides_is_made_up_for(watching: Watching) -> None:
    watching.presence.online = {BOB}
    await watching.watch(BOB)
    watching.presence.hiding = {ADA}
    watching.now += presence.RECHECK_AFTER + 1
    await watching.watchers._recheck()
    await watching.watchers.refresh()
    assert watching.sent == [(BOB, "online"), (BOB, "offline")]


async def test_at_most_two_hundred_are_watched_in_all_and_a_new_list_replaces_the_chats(watching: Watching) -> None:
    many = [UserId(str(number)) for number in range(MAX_WATCHED)]
    watching.presence.members |= set(many)
    await watching.watch(*many)
    with pytest.raises(Invalid):
        await watching.watch(BOB, chat_id=ChatId("other"))
    await watching.watch(BOB)
    await watching.watch(*many[1:], chat_id=ChatId("other"))
    assert watching.watchers._counts.total() == MAX_WATCHED


async def test_lists_of_several_chats_that_are_read_at_the_same_time_all_count(watching: Watching) -> None:
    await asyncio.gather(watching.watch(BOB), watching.watch(BOB, chat_id=ChatId("other")))
    assert watching.watchers._counts == {BOB: 2}
    watching.watchers.leave(SOCKET)
    assert (watching.watchers._watchers, watching.watchers._counts) == ({}, {})


async def test_the_limit_holds_for_lists_that_are_read_at_the_same_time(watching: Watching) -> None:
    many = [UserId(str(number)) for number in range(MAX_WATCHED)]
    watching.presence.members |= set(many)
    results = await asyncio.gather(
        watching.watch(*many), watching.watch(*many, chat_id=ChatId("other")), return_exceptions=True
    )
    assert [type(result) for result in results] == [type(None), Invalid]
    assert watching.watchers._counts.total() == MAX_WATCHED


async def test_an_empty_list_and_the_end_of_the_connection_leave_nothing(watching: Watching) -> None:
    await watching.watch(BOB)
    await watching.watch()
    assert (watching.watchers._watchers, watching.watchers._counts) == ({}, {})
    await watching.watch(BOB)
    watching.watchers.leave(SOCKET)
    assert (watching.watchers._watchers, watching.watchers._counts) == ({}, {})


@pytest.mark.parametrize("gone", [ADA, BOB])
async def test_who_left_the_chat_neither_sees_nor_is_seen(watching: Watching, gone: UserId) -> None:
    await watching.watch(BOB)
    watching.watchers.member_left(CHAT, gone)
    watching.presence.online = {BOB}
    await watching.watchers.refresh()
    assert watching.sent == [(BOB, "offline")]


@pytest.mark.parametrize("gone", [ADA, BOB])
async def test_memberships_are_read_again_after_five_minutes(watching: Watching, gone: UserId) -> None:
    await watching.watch(BOB)
    watching.presence.members.discard(gone)
    await watching.watchers._recheck()
    assert watching.watchers._counts == {BOB: 1}
    watching.now += presence.RECHECK_AFTER + 1
    await watching.watchers._recheck()
    assert watching.watchers._counts == {}


async def test_a_round_rechecks_some_and_those_that_were_read_the_longest_ago_first(
    watching: Watching, monkeypatch: Any
) -> None:
    monkeypatch.setattr(presence, "RECHECKED_KEYS", 1)
    chats = [ChatId(str(number)) for number in range(3)]
    for chat_id in chats:
        await watching.watch(BOB, chat_id=chat_id)
    watching.now += presence.RECHECK_AFTER + 1
    for _ in range(4):
        await watching.watchers._recheck()
    assert watching.presence.asked == [(chat_id, ADA) for chat_id in chats]
