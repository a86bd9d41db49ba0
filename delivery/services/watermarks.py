"""Watermarks: how far each member has received each chat.

An acknowledgement counts only from a member and only up to the chat's latest message; beyond it, a client could hide
messages from itself. Watermarks never move back, in whatever order acknowledgements arrive.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from chats.errors import ChatNotFound
from chats.services.posting import Posting
from delivery.domain import Watermark
from delivery.errors import SequenceOutOfRange
from delivery.stores.watermarks import WatermarkStore
from foundation.kernel.clock import Clock
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId, UserId, is_chat_id
from foundation.stores.dynamodb import Database

SCOPE = "delivery"

Pair = tuple[UserId, ChatId]
Claim = tuple[Pair, int]


@dataclass(frozen=True, slots=True)
class WatermarkPage:
    watermarks: list[Watermark]
    next_cursor: str | None


class Watermarks:
    """Thread-safe, except `acknowledge_many`, which is for the event loop."""

    def __init__(
        self,
        *,
        database: Database,
        store: WatermarkStore,
        posting: Posting,
        cursors: CursorCodec,
        clock: Clock,
    ) -> None:
        self._database = database
        self._store = store
        self._posting = posting
        self._cursors = cursors
        self._clock = clock

    def acknowledge(self, user_id: UserId, chat_id: ChatId, sequence: int) -> int:
        """Everything up to `sequence` has arrived. Return where the watermark stands, perhaps further already.

        Raises `ChatNotFound` and `SequenceOutOfRange`.
        """
        latest = self._posting.require_reader(chat_id, user_id)
        if sequence > latest:
            raise _out_of_range(sequence, latest)
        if self._store.advance(user_id, chat_id, sequence, now=self._clock.now()):
            return sequence
        return max(sequence, self._store.get(user_id, chat_id))

    async def acknowledge_many(self, acks: Mapping[Pair, Collection[int]]) -> dict[Claim, ParleyError]:
        """The same for many at once, in one read and one transaction; return what was refused, and why.

        Of several sequences for one chat the highest that exists counts, whatever else was claimed.
        """
        pairs = [(chat_id, user_id) for user_id, chat_id in acks if is_chat_id(chat_id)]
        found = await self._database.on_loop.batch_get(
            {
                **self._posting.membership_lookup(pairs),
                **self._posting.counter_lookup({chat_id for chat_id, _ in pairs}),
            }
        )
        members = self._posting.members_among(found, pairs)
        counters = self._posting.counters_among(found)
        accepted: dict[Pair, int] = {}
        refused: dict[Claim, ParleyError] = {}
        for pair, sequences in acks.items():
            user_id, chat_id = pair
            latest = counters.get(chat_id) if (chat_id, user_id) in members else None
            for sequence in sequences:
                if latest is None:
                    refused[pair, sequence] = ChatNotFound()
                elif sequence > latest:
                    refused[pair, sequence] = _out_of_range(sequence, latest)
                else:
                    accepted[pair] = max(sequence, accepted.get(pair, 0))
        await self._store.advance_many(accepted, now=self._clock.now())
        return refused

    def list_watermarks(self, user_id: UserId, *, limit: int, cursor: str | None) -> WatermarkPage:
        """A user's watermarks by chat id."""
        after = None
        if cursor is not None:
            after = ChatId(str(self._cursors.decode(cursor, scope=SCOPE, owner=user_id)["after"]))
        watermarks, more = self._store.list_of_user(user_id, limit=limit, after=after)
        return WatermarkPage(watermarks, self._next(watermarks, user_id) if more else None)

    def _next(self, watermarks: Sequence[Watermark], user_id: UserId) -> str:
        return self._cursors.encode({"after": watermarks[-1].chat_id}, scope=SCOPE, owner=user_id)


def _out_of_range(sequence: int, latest: int) -> SequenceOutOfRange:
    text = f"The chat's latest sequence is {latest}."
    return SequenceOutOfRange(f"Cannot acknowledge {sequence}: {text}", fields={"sequence": [text]})
