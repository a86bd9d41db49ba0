"""One batch's way into the store: read what decides over it, then write it, all or nothing.

Sequences are dense by construction: a counter moves from N to N+k only together with the k messages that it numbers,
on condition that it stood at N and that nobody has left the chat since its members were read. So drafts of members who
were seen there before need no reading (`is_known`). Works on a batch at a time: `committer` decides what is in it and
when it runs.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from chats.domain import Tally
from chats.errors import ChatNotFound
from chats.services.posting import Posting
from foundation.kernel.clock import Clock, to_iso
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import Database, Write
from foundation.stores.errors import (
    CancellationReason,
    StoreRefused,
    StoreUnavailable,
    Throttled,
    TransactionCancelled,
    TransactionConflict,
)
from messaging.domain import Message, Sent
from messaging.errors import ClientMessageIdConflict
from messaging.services.acquaintance import Acquaintance
from messaging.services.lanes import Entry, Part
from messaging.stores.idempotency import INSERT_KEY, IdempotencyKeyStore, Remembered
from messaging.stores.messages import MessageStore, Place

WARY_FOR = 2.0
"""Seconds. Who repeats a message seldom does so alone: after an outage everybody does."""


@dataclass(slots=True)
class Verdicts:
    """What reading a batch showed: who may be written, who has an answer already, and which."""

    writable: dict[ChatId, list[Entry]] = field(default_factory=dict)
    stored: list[tuple[Entry, Sent]] = field(default_factory=list)
    refused: list[tuple[Entry, ParleyError]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Stumble:
    """Why a chat could not be written this time. `error` is for the senders if there is no next time."""

    part: Part
    reason: str
    error: ParleyError
    hopeless: bool = False


@dataclass(slots=True)
class Written:
    """What a transaction came to: messages by part, or the chats to blame while the others are `innocent`."""

    stored: list[tuple[Part, list[Message]]] = field(default_factory=list)
    stumbles: list[Stumble] = field(default_factory=list)
    innocent: list[Part] = field(default_factory=list)


class Ingest:
    """Reads and writes batches, on one event loop; a chat is in one write at a time."""

    def __init__(
        self,
        *,
        database: Database,
        posting: Posting,
        messages: MessageStore,
        keys: IdempotencyKeyStore,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._posting = posting
        self._messages = messages
        self._keys = keys
        self._clock = clock
        self._monotonic = monotonic
        self._known = Acquaintance(monotonic=monotonic)
        self._wary_until = 0.0

    def is_known(self, entry: Entry) -> bool:
        """Whether the entry may be written unread: the transaction finds out if that was wrong.

        A repetition makes it fail as well, at the cost of a second transaction for everybody in it. So nobody goes
        unread who was tried before, nor anybody for a while after a repetition.
        """
        draft = entry.draft
        return (
            entry.attempts == 0
            and self._known.knows(draft.chat_id, draft.sender_id)
            and self._monotonic() >= self._wary_until
        )

    async def read(self, parts: Sequence[Part]) -> Verdicts:
        """One strongly consistent read of memberships, idempotency keys and the counters not known.

        Where a key is taken, a second one of the messages that the keys stand for. Raises `StoreUnavailable`.
        """
        entries = [entry for part in parts for entry in part.entries]
        pairs = {(entry.draft.chat_id, entry.draft.sender_id) for entry in entries}
        before = {part.chat_id: self._known.tally_of(part.chat_id) for part in parts}
        unknown = [chat_id for chat_id, tally in before.items() if tally is None]
        found = await self._database.batch_get_soon(
            {
                **self._posting.membership_lookup(pairs),
                **self._keys.lookup({(entry.draft.chat_id, entry.draft.client_message_id) for entry in entries}),
                **(self._posting.counter_lookup(unknown) if unknown else {}),
            }
        )
        tallies = self._posting.tallies_among(found)
        for chat_id, tally in tallies.items():
            self._known.meet(chat_id, tally)
        members = self._posting.members_among(found, pairs)
        self._believe(members, before)
        unborn = set(unknown) - tallies.keys()
        return await self._judge(
            entries,
            allowed={pair for pair in members if pair[0] not in unborn},
            taken=self._keys.found_in(found, now=self._clock.now()),
        )

    def _believe(self, members: set[tuple[ChatId, UserId]], before: Mapping[ChatId, Tally | None]) -> None:
        for chat_id, user_id in members:
            tally = before[chat_id]
            if tally is not None:
                self._known.believe(chat_id, user_id, departures=tally.departures)

    async def write(self, parts: Sequence[Part]) -> Written:
        """One transaction for the whole batch."""
        known = [(part, self._known.tally_of(part.chat_id)) for part in parts]
        missing = [Stumble(part, "counter_unknown", _crowded()) for part, current in known if current is None]
        ready = [(part, current) for part, current in known if current is not None]
        if missing:
            return Written(stumbles=missing, innocent=[part for part, _ in ready])
        now = self._clock.now()
        numbered = [(part, _numbered(part, current.sequence, now)) for part, current in ready]
        writes, owners = self._writes(ready, numbered, now)
        try:
            await self._database.transact_soon(writes)
        except TransactionCancelled as error:
            return self._blame(ready, writes, owners, error.reasons)
        except StoreUnavailable as error:
            # Whether the transaction went through may be unknown: reading the keys again will tell.
            reason = "conflict" if isinstance(error, TransactionConflict) else _reason_of(error)
            return self._all_stumble(parts, reason, error)
        except ParleyError as error:
            return self._all_stumble(parts, "refused", error, hopeless=True)
        for part, messages in numbered:
            self._known.move(part.chat_id, messages[-1].sequence)
        return Written(stored=numbered)

    async def _judge(
        self,
        entries: Sequence[Entry],
        *,
        allowed: set[tuple[ChatId, str]],
        taken: Mapping[tuple[ChatId, str], Remembered],
    ) -> Verdicts:
        verdicts = Verdicts()
        remembered: list[tuple[Entry, Remembered]] = []
        for entry in entries:
            draft = entry.draft
            key = taken.get((draft.chat_id, draft.client_message_id))
            if (draft.chat_id, draft.sender_id) not in allowed:
                verdicts.refused.append((entry, ChatNotFound()))
            elif key is None:
                verdicts.writable.setdefault(draft.chat_id, []).append(entry)
            else:
                remembered.append((entry, key))
        if remembered:
            await self._recall(remembered, verdicts)
        return verdicts

    async def _recall(self, remembered: Sequence[tuple[Entry, Remembered]], verdicts: Verdicts) -> None:
        """Compare each draft with the message that its key stands for."""
        places = {_place(entry, key) for entry, key in remembered}
        messages = await asyncio.to_thread(self._messages.find_at, places)
        for entry, key in remembered:
            message = messages.get(_place(entry, key))
            if message is not None and entry.draft.is_same_as(message):
                # Under the entry's own message id it is no duplicate: the answer to our own write got lost.
                verdicts.stored.append((entry, Sent(message, duplicate=key.message_id != entry.message_id)))
            else:
                verdicts.refused.append((entry, ClientMessageIdConflict()))

    def _writes(
        self,
        ready: Sequence[tuple[Part, Tally]],
        numbered: Sequence[tuple[Part, list[Message]]],
        now: datetime,
    ) -> tuple[list[Write], list[Part]]:
        """The transaction's items, and beside each the part that it belongs to.

        Table by table: the embedded engine writes what belongs to one table together, and DynamoDB does not mind.
        """
        counters: list[tuple[Write, Part]] = []
        keys: list[tuple[Write, Part]] = []
        places: list[tuple[Write, Part]] = []
        for (part, current), (_, messages) in zip(ready, numbered, strict=True):
            move = self._posting.moving_counter(part.chat_id, current=current, added=len(messages), now=now)
            counters.append((move, part))
            keys += ((self._keys.remembering(message, now=now), part) for message in messages)
            places += ((self._messages.storing(message), part) for message in messages)
        everything = counters + keys + places
        return [write for write, _ in everything], [part for _, part in everything]

    def _blame(
        self,
        tried: Sequence[tuple[Part, Tally]],
        writes: Sequence[Write],
        owners: Sequence[Part],
        reasons: Sequence[CancellationReason | None],
    ) -> Written:
        """Split a cancelled transaction: who is to blame goes back, the others may go on at once.

        A chat that is known otherwise than when it was tried goes back too: who was a member then may have left.
        """
        blamed: dict[ChatId, Stumble] = {}
        if len(reasons) == len(writes):
            for write, owner, reason in zip(writes, owners, reasons, strict=True):
                if reason is not None and owner.chat_id not in blamed:
                    blamed[owner.chat_id] = _stumble(owner, write, reason)
                if reason is not None and reason.is_condition and write.pattern is INSERT_KEY:
                    self._wary_until = self._monotonic() + WARY_FOR
        if not blamed:
            return self._all_stumble([part for part, _ in tried], "conflict", _crowded())
        for part, tally in tried:
            if self._known.tally_of(part.chat_id) != tally:
                blamed.setdefault(part.chat_id, Stumble(part, "counter_unknown", _crowded()))
        for chat_id in blamed:
            self._known.forget(chat_id)
        innocent = [part for part, _ in tried if part.chat_id not in blamed]
        return Written(stumbles=list(blamed.values()), innocent=innocent)

    def _all_stumble(
        self, parts: Sequence[Part], reason: str, error: ParleyError, *, hopeless: bool = False
    ) -> Written:
        for part in parts:
            self._known.forget(part.chat_id)
        return Written(stumbles=[Stumble(part, reason, error, hopeless=hopeless) for part in parts])


def _crowded() -> TransactionConflict:
    return TransactionConflict("Others kept writing to this chat")


def _stumble(part: Part, write: Write, reason: CancellationReason) -> Stumble:
    if reason.is_condition:
        return Stumble(part, f"{write.pattern.table}_condition", _crowded())
    if reason.code == "TransactionConflict":
        return Stumble(part, "conflict", _crowded())
    if reason.is_transient:
        return Stumble(part, "throttled", Throttled("DynamoDB is over capacity"))
    return Stumble(part, "refused", StoreRefused(f"DynamoDB cancelled the write: {reason.code}"), hopeless=True)


def _reason_of(error: StoreUnavailable) -> str:
    return "throttled" if isinstance(error, Throttled) else "unavailable"


def _numbered(part: Part, current: int, now: datetime) -> list[Message]:
    created_at = to_iso(now)
    return [
        Message(
            message_id=entry.message_id,
            chat_id=part.chat_id,
            sequence=sequence,
            sender_id=entry.draft.sender_id,
            client_message_id=entry.draft.client_message_id,
            content=entry.draft.content,
            content_type=entry.draft.content_type,
            created_at=created_at,
        )
        for sequence, entry in enumerate(part.entries, start=current + 1)
    ]


def _place(entry: Entry, key: Remembered) -> Place:
    return entry.draft.chat_id, key.sequence
