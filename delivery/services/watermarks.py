"""Marks: how far each member has received and read each chat.

A mark counts only from a member and only up to the chat's latest entry; beyond it, a client could hide messages from
itself. Neither mark moves back, in whatever order claims arrive, and each moves by a write of its own: a read tells
nothing of devices, an acknowledgement nothing of the person.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from chats.errors import ChatNotFound
from chats.services.posting import Posting
from delivery.domain import Mark, Marks, Pair, Watermark
from delivery.errors import SequenceOutOfRange
from delivery.stores.watermarks import WatermarkStore
from foundation.kernel.clock import Clock
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId, UserId, is_chat_id
from foundation.stores.dynamodb import AsyncDatabase

T = TypeVar("T")

SCOPE = "delivery"
WRITES_IN_FLIGHT = 128
"""Of all calls together: messages need connections of the store too."""
WRITES_AT_ONCE = 4
"""Of one call: messages need the event loop too."""

Claim = tuple[Mark, int]
OnMoved = Callable[[UserId, ChatId, Marks, Mark], None]
"""Called on the event loop with both marks, and which has moved; sometimes again, when nothing has."""


@dataclass(frozen=True, slots=True)
class WatermarkPage:
    watermarks: list[Watermark]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """`stands` has the marks that are known to be stored now; they may be further."""

    refused: dict[tuple[Pair, Claim], ParleyError]
    stands: dict[Pair, Marks]


class Watermarks:
    """On the service loop."""

    def __init__(
        self,
        *,
        database: AsyncDatabase,
        store: WatermarkStore,
        posting: Posting,
        cursors: CursorCodec,
        clock: Clock,
        on_moved: OnMoved = lambda *_: None,
    ) -> None:
        self._database = database
        self._store = store
        self._posting = posting
        self._cursors = cursors
        self._clock = clock
        self._on_moved = on_moved
        self._writing = asyncio.Semaphore(WRITES_IN_FLIGHT)

    async def move(self, user_id: UserId, chat_id: ChatId, mark: Mark, sequence: int) -> Marks:
        """Move one mark. Return where both stand, perhaps further already.

        Raises `ChatNotFound` and `SequenceOutOfRange`.
        """
        pair, claim = (user_id, chat_id), (mark, sequence)
        outcome = await self.move_many({pair: [claim]})
        if outcome.refused:
            raise outcome.refused[pair, claim]
        known, stored = outcome.stands[pair], await self._store.get(user_id, chat_id)
        return known.merged(stored)

    async def move_many(self, claims: Mapping[Pair, Collection[Claim]]) -> Outcome:
        """The same for many at once: one read for all, one write for each mark.

        Of several sequences for one mark the highest that exists counts, whatever else was claimed. A read mark that
        is not behind makes the acknowledgement superfluous. A read mark of 0 is written with an acknowledgement, where
        there is none, so that unread messages are never counted from the acknowledgement.
        """
        accepted, refused = self._judge(claims, await self._read_latest(claims))
        unread = {pair for pair, marks in accepted.items() if marks.get(Mark.READ) == 0}
        writes = [(pair, claim) for pair, marks in accepted.items() for claim in marks.items() if claim[1]]
        results: list[Marks | BaseException] = []
        for some in _batched(writes, WRITES_AT_ONCE):
            results += await asyncio.gather(
                *[self._advance(pair, *claim, is_unread=pair in unread) for pair, claim in some], return_exceptions=True
            )
        stands: dict[Pair, Marks] = {}
        for (pair, (mark, _)), result in zip(writes, results, strict=True):
            if isinstance(result, Marks):
                stands[pair] = result.merged(stands.get(pair, result))
            elif isinstance(result, ParleyError):
                refused |= {(pair, claim): result for claim in claims[pair] if claim[0] is mark}
            else:
                raise result
        return Outcome(refused, stands)

    async def _read_latest(self, claims: Collection[Pair]) -> dict[Pair, int]:
        """The chats' latest sequences, for the pairs that are members. Strongly consistent."""
        pairs = [(chat_id, user_id) for user_id, chat_id in claims if is_chat_id(chat_id)]
        found = await self._database.batch_get(
            {
                **self._posting.membership_lookup(pairs),
                **self._posting.counter_lookup({chat_id for chat_id, _ in pairs}),
            }
        )
        counters = self._posting.counters_among(found)
        members = self._posting.members_among(found, pairs)
        return {(user_id, chat_id): counters[chat_id] for chat_id, user_id in members if chat_id in counters}

    def _judge(
        self, claims: Mapping[Pair, Collection[Claim]], latest: Mapping[Pair, int]
    ) -> tuple[dict[Pair, dict[Mark, int]], dict[tuple[Pair, Claim], ParleyError]]:
        accepted: dict[Pair, dict[Mark, int]] = {}
        refused: dict[tuple[Pair, Claim], ParleyError] = {}
        for pair, asked in claims.items():
            best = accepted[pair] = dict[Mark, int]()
            for mark, sequence in asked:
                if pair not in latest:
                    refused[pair, (mark, sequence)] = ChatNotFound()
                elif sequence > latest[pair]:
                    refused[pair, (mark, sequence)] = _out_of_range(sequence, latest[pair])
                else:
                    best[mark] = max(sequence, best.get(mark, 0))
            if best.get(Mark.READ, 0) >= best.get(Mark.ACKED, 0):
                best.pop(Mark.ACKED, None)
        return accepted, refused

    async def _advance(self, pair: Pair, mark: Mark, sequence: int, *, is_unread: bool) -> Marks:
        async with self._writing:
            marks = await self._store.advance(pair, mark, sequence, now=self._clock.now(), is_unread=is_unread)
        # A write that was applied and not answered finds its own sequence when it is tried again.
        if marks.of(mark) == sequence:
            self._on_moved(*pair, marks, mark)
        return marks

    async def list_watermarks(self, user_id: UserId, *, limit: int, cursor: str | None) -> WatermarkPage:
        """A user's watermarks by chat id."""
        after = None
        if cursor is not None:
            after = ChatId(str(self._cursors.decode(cursor, scope=SCOPE, owner=user_id)["after"]))
        watermarks, more = await self._store.list_of_user(user_id, limit=limit, after=after)
        return WatermarkPage(watermarks, self._next(watermarks, user_id) if more else None)

    async def erase(self, user_id: UserId) -> None:
        """Forget how far an erased user has received anything."""
        await self._store.erase(user_id)

    def _next(self, watermarks: Sequence[Watermark], user_id: UserId) -> str:
        return self._cursors.encode({"after": watermarks[-1].chat_id}, scope=SCOPE, owner=user_id)


def _batched(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    return (items[first : first + size] for first in range(0, len(items), size))


def _out_of_range(sequence: int, latest: int) -> SequenceOutOfRange:
    text = f"The chat's latest sequence is {latest}."
    return SequenceOutOfRange(f"Cannot mark {sequence}: {text}", fields={"sequence": [text]})
