"""Compares what DynamoDB holds of a chat with its events in Kafka. Pure: reads nothing, changes nothing.

Read the events first, then the tables: whatever Kafka tells must be in DynamoDB by then.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from foundation.kernel.clock import to_iso
from foundation.kernel.events import CHATS_CREATED, MEMBERSHIPS_CHANGED, MESSAGES_PERSISTED
from staff.findings import Finding
from staff.services.event_index import UNNUMBERED, ChatEvents

MISSING, ORPHANED, OUT_OF_ORDER, CHAT_MISSING = "missing", "orphaned", "out_of_order", "chat_missing"
REPAIRABLE = frozenset({MISSING, OUT_OF_ORDER})

UserChange = tuple[str, str]
"""A user, and how their membership has changed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the comparison needs of a stored entry. A torn one lacks attributes, and nothing can be published of it.

    `changes` are those of members, where the entry is a notice of them.
    """

    message_id: str | None
    created_at: str | None
    is_torn: bool = False
    changes: tuple[UserChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """What was created in this time must have an event: what is later may be under way, what is earlier has expired."""

    first: datetime
    last: datetime

    def contains(self, created_at: str | None) -> bool:
        return created_at is not None and to_iso(self.first) <= created_at <= to_iso(self.last)


def compare_entries(
    chat_id: str, entries: Mapping[int, Entry], events: ChatEvents, window: Window
) -> Iterator[Finding]:
    """`entries` holds every entry of the window, and those of all sequences that `events` names, where they exist."""
    ids = {sequence: hash(entry.message_id) for sequence, entry in entries.items()}
    real = [(sequence, again) for sequence, message_id, again in events if ids.get(sequence) == message_id]
    announced = {sequence for sequence, _ in real}

    def found(kind: str, detail: str, sequence: int) -> Finding:
        return Finding(kind, detail, chat_id, sequence, topic=MESSAGES_PERSISTED)

    for sequence, entry in sorted(entries.items()):
        if sequence not in announced and window.contains(entry.created_at):
            yield found(MISSING, "The entry is stored and has no event. Repair: publish it.", sequence)
    orphans = {sequence for sequence, message_id, _ in events if ids.get(sequence) != message_id}
    for sequence in sorted(orphans):
        yield found(ORPHANED, "An event tells of an entry that is not stored. Find out why.", sequence)
    for sequence in late(real):
        yield found(OUT_OF_ORDER, "The event came after that of a later entry. Repair: publish it again.", sequence)


def compare_changes(
    chat_id: str, entries: Mapping[int, Entry], events: ChatEvents, window: Window
) -> Iterator[Finding]:
    """The changes of members that the entries tell of, with their events. `entries` as for `compare_entries`.

    Their order means nothing: each process publishes the changes that it was asked for.
    """
    logged = events.places()
    for sequence, entry in sorted(entries.items()):
        if window.contains(entry.created_at):
            for user_id, change in list_unpublished(sequence, entry.changes, logged):
                detail = f"{user_id} was {_WORDS[change]}, and that has no event. Repair: publish it."
                yield Finding(MISSING, detail, chat_id, sequence, user_id, MEMBERSHIPS_CHANGED)
    stored = {(sequence, hash(user_id)) for sequence, entry in entries.items() for user_id, _ in entry.changes}
    for sequence in sorted({sequence for sequence, _ in logged - stored if sequence != UNNUMBERED}):
        detail = "An event tells of a change of members that no entry tells of. Find out why."
        yield Finding(ORPHANED, detail, chat_id, sequence, topic=MEMBERSHIPS_CHANGED)


_WORDS = {"added": "added", "removed": "removed", "role_changed": "given another role"}


def list_unpublished(sequence: int, changes: Iterable[UserChange], logged: Set[tuple[int, int]]) -> list[UserChange]:
    """The changes of a notice that no event tells of.

    An event of an earlier release has no sequence: it may tell of any change of its user of that kind.
    """
    return [
        (user_id, change)
        for user_id, change in changes
        if (sequence, hash(user_id)) not in logged and (UNNUMBERED, hash((user_id, change))) not in logged
    ]


def compare_creation(
    chat_id: str, chat: Mapping[str, Any] | None, events: ChatEvents, window: Window
) -> Iterator[Finding]:
    """`chat` is the stored item, or None."""
    if chat is None and events:
        detail = "An event tells of a chat that is not stored. Find out why."
        yield Finding(ORPHANED, detail, chat_id, topic=CHATS_CREATED)
    elif chat is not None and not events and window.contains(chat.get("created_at")):
        detail = "The chat was created, and that has no event. Repair: publish it."
        yield Finding(MISSING, detail, chat_id, topic=CHATS_CREATED)


def late(events: list[tuple[int, bool]]) -> list[int]:
    """The sequences whose first event follows that of a higher one, without those published once more since."""
    highest, seen, found = 0, set[int](), dict[int, None]()
    for sequence, again in events:
        if again:
            found.pop(sequence, None)
        elif sequence not in seen and sequence < highest:
            found[sequence] = None
        if not again:
            highest = max(highest, sequence)
        seen.add(sequence)
    return sorted(found)
