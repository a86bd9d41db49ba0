"""Where drafts wait: one lane per chat, served in turn.

Within a chat drafts are read, committed and answered in the order of their arrival; what is known already is not read.
Between chats the turn goes round: each visit serves a few drafts of one chat, so a hot chat fills a transaction only
where others leave room. Pure bookkeeping: no thread, no I/O.
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from foundation.kernel.ids import ChatId, MessageId
from foundation.kernel.promise import Promise
from foundation.stores.dynamodb.database import TRANSACTION_ITEMS
from messaging.domain import Draft, Sent

COUNTER_ITEMS = 1
MESSAGE_ITEMS = 2
TURN = 8
# As many drafts of one chat as a transaction can hold.
FULL = (TRANSACTION_ITEMS - COUNTER_ITEMS) // MESSAGE_ITEMS


@dataclass(slots=True, eq=False)
class Entry:
    """A draft on its way to an answer.

    The message id is given once and survives every retry: a key in the store that holds it is this entry's own.
    `repeats` are later sends of the same id by the same sender, which share the answer.
    """

    draft: Draft
    message_id: MessageId
    arrived: float
    answer: Promise[Sent] = field(default_factory=Promise)
    attempts: int = 0
    repeats: list["Entry"] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Lane:
    """A chat's drafts by stage; read from the top, these lists are the order of arrival.

    `round` grows when the chat stumbles: a read that began before then is worthless.
    """

    chat_id: ChatId
    committing: list[Entry] = field(default_factory=list)
    verified: deque[Entry] = field(default_factory=deque)
    reading: list[Entry] = field(default_factory=list)
    queued: deque[Entry] = field(default_factory=deque)
    round: int = 0
    resting: bool = False
    alone: bool = False

    @property
    def is_readable(self) -> bool:
        """While the chat is written, drafts gather, until they would fill a transaction by themselves."""
        if not self.queued or self.reading or self.verified or self.resting:
            return False
        return not self.committing or len(self.queued) >= FULL

    @property
    def is_committable(self) -> bool:
        return bool(self.verified) and not self.committing

    @property
    def is_empty(self) -> bool:
        return not (self.queued or self.reading or self.verified or self.committing)


@dataclass(frozen=True, slots=True)
class Part:
    """One chat's share of a batch."""

    lane: Lane
    entries: Sequence[Entry]
    round: int

    @property
    def chat_id(self) -> ChatId:
        return self.lane.chat_id


class Lanes:
    """All chats with drafts under way. Not thread-safe. `is_known` tells who needs no reading."""

    def __init__(self, *, is_known: Callable[[Entry], bool] = lambda _entry: False) -> None:
        self._is_known = is_known
        self._lanes: dict[ChatId, Lane] = {}
        self._pending: dict[tuple[ChatId, str], Entry] = {}
        self._readable: OrderedDict[ChatId, Lane] = OrderedDict()
        self._committable: OrderedDict[ChatId, Lane] = OrderedDict()
        # Those of them that were read for it.
        self._read: set[ChatId] = set()
        self._resting: list[tuple[float, int, Lane]] = []
        self._stumbles = 0

    def add(self, entry: Entry) -> None:
        """Queue a draft, or let it share the answer of the same sender's same id that is still under way."""
        draft = entry.draft
        first = self._pending.setdefault((draft.chat_id, draft.client_message_id), entry)
        if first is not entry and first.draft.sender_id == draft.sender_id:
            first.repeats.append(entry)
            return
        lane = self._lanes.get(draft.chat_id)
        if lane is None:
            lane = self._lanes[draft.chat_id] = Lane(draft.chat_id)
        lane.queued.append(entry)
        self._refresh(lane)

    def start_reading(self, now: float) -> list[Part]:
        """The next batch to read; empty while a batch that is already read waits for a transaction.

        That pause is what lets drafts gather: reads are quicker than commits and would otherwise take them one by one.
        """
        self._wake(now)
        if self._read:
            return []
        parts = []
        for lane, count in _fill(self._readable.values(), lambda lane: len(lane.queued)):
            lane.reading = [lane.queued.popleft() for _ in range(count)]
            parts.append(Part(lane, tuple(lane.reading), lane.round))
            self._refresh(lane)
        return parts

    def finish_reading(self, part: Part, verified: Iterable[Entry]) -> list[Entry] | None:
        """Move the verified on and let go of the others.

        Returns those whose id another sender's draft has taken, which is ahead of them. None when the chat stumbled
        meanwhile: nothing has moved, and what was read is worthless.
        """
        lane = part.lane
        if lane.round != part.round:
            return None
        lane.reading = []
        ahead = {entry.draft.client_message_id: entry for entry in (*lane.committing, *lane.verified)}
        moved, clashing = [], []
        for entry in verified:
            first = ahead.setdefault(entry.draft.client_message_id, entry)
            if first is entry:
                moved.append(entry)
            elif first.draft.sender_id == entry.draft.sender_id:
                first.repeats += (entry, *entry.repeats)
                entry.repeats = []
            else:
                clashing.append(entry)
        lane.verified.extend(moved)
        # From now on the ids are theirs, also where another had them under way before, or has meanwhile.
        for entry in moved:
            self._pending[lane.chat_id, entry.draft.client_message_id] = entry
        if moved and not lane.committing:
            self._read.add(lane.chat_id)
        self._forget_pending(set(part.entries) - set(moved))
        self._refresh(lane)
        return clashing

    def start_committing(self) -> list[Part]:
        """The next transaction, of chats that are in none. A chat that goes alone shares with nobody."""
        waiting = list(self._committable.values())
        alone = waiting[:1] if waiting and waiting[0].alone else []
        candidates = alone or [lane for lane in waiting if not lane.alone]
        parts = []
        for lane, count in _fill(candidates, lambda lane: len(lane.verified)):
            lane.committing = [lane.verified.popleft() for _ in range(count)]
            parts.append(Part(lane, tuple(lane.committing), lane.round))
            self._refresh(lane)
        return parts

    def finish_committing(self, part: Part) -> None:
        """The part's entries have left the lane, stored or failed."""
        part.lane.committing = []
        part.lane.alone = False
        self._forget_pending(part.entries)
        self._refresh(part.lane)

    def stumble(self, part: Part, *, failed: Iterable[Entry], until: float) -> None:
        """The chat goes back to be read again, alone and not before `until`; the failed are let go of."""
        lane, gone = part.lane, set(failed)
        back = [entry for entry in (*lane.committing, *lane.verified, *lane.reading) if entry not in gone]
        lane.queued.extendleft(reversed(back))
        lane.committing, lane.reading = [], []
        lane.verified.clear()
        lane.round += 1
        lane.alone = lane.resting = True
        self._stumbles += 1
        heapq.heappush(self._resting, (until, self._stumbles, lane))
        self._forget_pending(gone)
        self._refresh(lane)

    def next_waking(self) -> float | None:
        """When the first resting chat may be read again."""
        return self._resting[0][0] if self._resting else None

    def drain(self) -> list[Entry]:
        """Take out everything that no transaction holds."""
        drained: list[Entry] = []
        for lane in list(self._lanes.values()):
            drained += (*lane.verified, *lane.reading, *lane.queued)
            lane.verified.clear()
            lane.queued.clear()
            lane.reading = []
            lane.round += 1
            self._refresh(lane)
        self._forget_pending(drained)
        return drained

    def _wake(self, now: float) -> None:
        while self._resting and self._resting[0][0] <= now:
            _, _, lane = heapq.heappop(self._resting)
            lane.resting = False
            self._refresh(lane)

    def _is_pending(self, entry: Entry) -> bool:
        return self._pending.get((entry.draft.chat_id, entry.draft.client_message_id)) is entry

    def _forget_pending(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if self._is_pending(entry):
                del self._pending[entry.draft.chat_id, entry.draft.client_message_id]

    def _refresh(self, lane: Lane) -> None:
        """Put the lane where it is looked for; one that was just served queues up at the end."""
        if lane.queued:
            self._wave_through(lane)
        if lane.is_committable:
            self._committable.setdefault(lane.chat_id, lane)
        elif self._committable.pop(lane.chat_id, None) is not None:
            self._read.discard(lane.chat_id)
        if lane.is_readable:
            self._readable.setdefault(lane.chat_id, lane)
        else:
            self._readable.pop(lane.chat_id, None)
        if lane.is_empty and not lane.resting:
            self._lanes.pop(lane.chat_id, None)

    def _wave_through(self, lane: Lane) -> None:
        """Who is known joins the verified, unless somebody ahead has to be read or the chat has stumbled.

        Nor does anybody whose id another draft has under way: reading will tell who was first.
        """
        if lane.reading or lane.resting or lane.alone:
            return
        while lane.queued:
            entry = lane.queued[0]
            if not (self._is_known(entry) and self._is_pending(entry)):
                return
            lane.verified.append(lane.queued.popleft())


def _fill(lanes: Iterable[Lane], available: Callable[[Lane], int]) -> list[tuple[Lane, int]]:
    """Share one transaction's items among the lanes, in turns of a few drafts, as long as anything fits."""
    room = TRANSACTION_ITEMS
    turns: deque[Lane] = deque()
    for lane in lanes:
        turns.append(lane)
        if len(turns) * (COUNTER_ITEMS + MESSAGE_ITEMS) > TRANSACTION_ITEMS:
            break
    counts: dict[Lane, int] = {}
    while turns:
        lane = turns.popleft()
        had = counts.get(lane, 0)
        cost = 0 if had else COUNTER_ITEMS
        count = min(TURN, available(lane) - had, (room - cost) // MESSAGE_ITEMS)
        if count <= 0:
            continue
        counts[lane] = had + count
        room -= cost + count * MESSAGE_ITEMS
        turns.append(lane)
    return list(counts.items())
