"""Follows the entries and keys of a chat and remembers what the checks need, not the entries."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from foundation.kernel.clock import to_iso
from messaging.stores.inspection import Item, is_torn

KEY_LIFE = timedelta(days=7)
MESSAGE = "message"
CHANGING = frozenset({"edit", "deletion", "reaction"})
"""Kinds of entries that change the message they name, and with it its `last_change`."""
MARGIN = timedelta(hours=1)


class LogFacts:
    """Feed it every entry in ascending order, then every key."""

    def __init__(self, *, now: datetime) -> None:
        self._now = now
        self._keys_since = to_iso(now - KEY_LIFE + MARGIN)
        self.last = 0
        self.gaps: list[tuple[int, int]] = []
        self.torn: list[int] = []
        self.recent: dict[str, Item] = {}
        """Entries young enough to have a key, by client message id."""
        self.keys: dict[str, Item] = {}
        self.others = 0
        """Entries that are no messages."""
        self.last_other = 0
        self.last_message = 0
        self.message_before = 0
        """The last message before `last_other`."""
        self.wrong_others: list[tuple[int, int | None, int]] = []
        """Sequences of entries that miscount what is no message, what they tell, and what is right."""
        self.wrong_targets: list[int] = []
        self.changes: dict[int, int] = {}
        """The last entry that changed each message."""
        self.counted: dict[int, int] = {}
        """The `last_change` of each message that tells of one."""
        self.remains: list[int] = []
        """Messages that are deleted and not empty."""
        self._no_messages: set[int] = set()

    def see(self, entries: Iterable[Item]) -> None:
        for entry in entries:
            sequence = int(entry["sequence"])
            if sequence > self.last + 1:
                self.gaps.append((self.last + 1, sequence - 1))
            self.last = max(self.last, sequence)
            self._follow(entry, sequence)
            if is_torn(entry):
                self.torn.append(sequence)
            elif entry["created_at"] >= self._keys_since:
                self.recent[entry["client_message_id"]] = entry

    def _follow(self, entry: Item, sequence: int) -> None:
        """Count as the committer counts, and remember what the entry changes."""
        kind, target = entry.get("kind") or MESSAGE, entry.get("target")
        if kind == MESSAGE:
            self.last_message = sequence
        else:
            self.others += 1
            self.last_other = sequence
            self.message_before = self.last_message
            self._no_messages.add(sequence)
        if change := entry.get("last_change"):
            self.counted[sequence] = int(change)
        if entry.get("deleted_at") and is_not_empty(entry):
            self.remains.append(sequence)
        counted = entry.get("others")
        if int(counted or 0) != self.others:
            self.wrong_others.append((sequence, counted, self.others))
        if target is not None:
            if not 1 <= int(target) < sequence or int(target) in self._no_messages:
                self.wrong_targets.append(sequence)
            elif kind in CHANGING:
                self.changes[int(target)] = sequence

    def see_keys(self, keys: Iterable[Item]) -> None:
        """Expired keys count as absent."""
        second = int(self._now.timestamp())
        self.keys |= {key["client_message_id"]: key for key in keys if int(key.get("ttl") or 0) > second}

    @property
    def doubtful(self) -> list[int]:
        """Messages that tell of another last change than the entries do, as far as they were read."""
        changed = self.changes.keys() | self.counted.keys()
        return sorted(each for each in changed if self.counted.get(each, 0) != self.changes.get(each, 0))

    def missing(self, counter: int) -> Iterator[tuple[int, int]]:
        """The ranges of sequences that the counter has given out and no entry has."""
        yield from self.gaps
        if self.last < counter:
            yield self.last + 1, counter


def is_not_empty(entry: Item) -> bool:
    """Whether a message has something that its deletion removes."""
    reactions = any(name.startswith("reaction:") for name in entry)
    return bool(entry.get("content") or entry.get("mentions") or reactions)
