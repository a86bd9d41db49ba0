"""What the store is asked before somebody sees another's presence."""

from collections.abc import Iterable, Mapping
from typing import Any
from unittest.mock import Mock

import pytest

from chats.errors import ChatNotFound
from delivery.services.presence import FEW, Presence
from foundation.kernel.clock import SystemClock
from foundation.kernel.ids import ChatId, IdFactory, UserId

IDS = IdFactory(SystemClock())
CHAT, OTHER = IDS.chat(), IDS.chat()
ADA, *OTHERS = [IDS.user() for _ in range(2 * FEW)]


class Reads:
    """Memberships, and how many keys were read in each request."""

    def __init__(self, *members: tuple[ChatId, UserId]) -> None:
        self.members = set(members)
        self.keys: list[int] = []
        posting = Mock(
            membership_lookup=lambda pairs: {"memberships": list(pairs)},
            counter_lookup=lambda chat_ids: {"counters": list(chat_ids)},
            members_among=lambda _, pairs: self.members & set(pairs),
            counters_among=lambda _: dict.fromkeys((CHAT, OTHER), 1),
        )
        self.presence = Presence(
            Mock(), database=Mock(batch_get=self.batch_get), posting=posting, users=Mock(), privacy=Mock(), clock=Mock()
        )

    async def batch_get(self, wanted: Mapping[str, Iterable[Any]]) -> None:
        self.keys.append(sum(len(list(keys)) for keys in wanted.values()))


async def test_a_stranger_costs_the_read_of_the_own_membership_however_many_are_named() -> None:
    reads = Reads()
    with pytest.raises(ChatNotFound):
        await reads.presence.members_among(CHAT, ADA, OTHERS)
    assert reads.keys == [2]


async def test_a_member_sees_who_of_many_is_in_the_chat() -> None:
    reads = Reads((CHAT, ADA), (CHAT, OTHERS[0]), (OTHER, OTHERS[1]))
    assert await reads.presence.members_among(CHAT, ADA, OTHERS) == {ADA, OTHERS[0]}


async def test_several_lists_are_one_read_and_a_viewer_who_has_left_shares_with_nobody() -> None:
    reads = Reads((CHAT, ADA), (CHAT, OTHERS[0]), (OTHER, OTHERS[1]))
    lists = [(CHAT, ADA, OTHERS[:2]), (OTHER, ADA, OTHERS[:2]), (OTHER, OTHERS[1], [OTHERS[2]])]
    assert await reads.presence.sharing(lists) == [{ADA, OTHERS[0]}, set(), {OTHERS[1]}]
    assert len(reads.keys) == 1
