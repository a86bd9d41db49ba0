"""Compares the entries of a chat in DynamoDB with its events in Kafka. Pure: reads nothing, changes nothing.

Read the events first, then the entries: whatever Kafka tells must be in DynamoDB by then.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from foundation.kernel.clock import to_iso
from staff.findings import Finding
from staff.services.event_index import ChatEvents

MISSING, ORPHANED, OUT_OF_ORDER = "missing", "orphaned", "out_of_order"
REPAIRABLE = frozenset({MISSING, OUT_OF_ORDER})


@dataclass(frozen=True, slots=True)
class Entry:
    """What the comparison needs of a stored entry. A torn one lacks attributes, and nothing can be published of it."""

    message_id: str | None
    created_at: str | None
    is_torn: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """Entries created in this time must have an event: later ones may be under way, earlier ones have expired."""

    first: datetime
    last: datetime

    def contains(self, entry: Entry) -> bool:
        return entry.created_at is not None and to_iso(self.first) <= entry.created_at <= to_iso(self.last)


def compare(chat_id: str, entries: Mapping[int, Entry], events: ChatEvents, window: Window) -> Iterator[Finding]:
    """`entries` holds every entry of the window, and those of all sequences that `events` names, where they exist."""
    ids = {sequence: hash(entry.message_id) for sequence, entry in entries.items()}
    real = [(sequence, again) for sequence, message_id, again in events if ids.get(sequence) == message_id]
    announced = {sequence for sequence, _ in real}
    for sequence, entry in sorted(entries.items()):
        if sequence not in announced and window.contains(entry):
            yield Finding(MISSING, "The entry is stored and has no event. Repair: publish it.", chat_id, sequence)
    orphans = {sequence for sequence, message_id, _ in events if ids.get(sequence) != message_id}
    for sequence in sorted(orphans):
        yield Finding(ORPHANED, "An event tells of an entry that is not stored. Find out why.", chat_id, sequence)
    for sequence in late(real):
        yield Finding(
            OUT_OF_ORDER, "The event came after that of a later entry. Repair: publish it again.", chat_id, sequence
        )


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
