"""One chat as its entries leave it: the fold of messages, changes and notices. Pure: no network, no clock."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Entry = dict[str, Any]

SHOWN = ("message", "notice")
CHANGES = ("edit", "deletion", "reaction", "pin")
MAX_KEPT = 10_000
MAX_PINS = 50
MAX_LISTED_REACTORS = 20


@dataclass(frozen=True, eq=False, slots=True)
class Read:
    """A read in progress. `since` is the last sequence that the log had when it began."""

    since: int


@dataclass(frozen=True, slots=True)
class _Reacted:
    """Somebody's last reaction of one emoji to one message."""

    sequence: int
    is_added: bool


class ChatLog:
    """The messages and notices of a chat as they stand, and its pins.

    A change applies where its sequence is greater than the `last_change` of what it changes, so that a page may hold
    older or newer states than the entries that arrive beside it. While a read is in progress, every applied change is
    kept and applied again to what the read returns.

    A message lists the first `max_listed` of those who reacted, as the server does. Who the others are is known from
    the reactions of the timeline: they come after the message, so a message of the timeline has all of them there.
    """

    def __init__(self, *, max_listed: int = MAX_LISTED_REACTORS) -> None:
        self._max_listed = max_listed
        self._reacted: dict[tuple[int, str], dict[str, _Reacted]] = {}
        self.last = 0
        self.pins: list[int] = []
        self.skipped = 0
        self._entries: dict[int, Entry] = {}
        self._first = 0
        self._pins_changed = 0
        self._reads: set[Read] = set()
        self._kept: list[Entry] = []
        self._listeners: list[Callable[[Entry], None]] = []

    @property
    def first(self) -> int:
        """The sequence of the oldest entry that was read; 0 before any."""
        return self._first

    @property
    def timeline(self) -> list[Entry]:
        """What a person sees, oldest first: messages, deleted ones included, and notices."""
        return [self._entries[sequence] for sequence in sorted(self._entries) if sequence >= self._first]

    def find(self, sequence: int) -> Entry | None:
        """A message or notice, also one that only a quote or a pin has loaded."""
        return self._entries.get(sequence)

    def has_reacted(self, sequence: int, emoji: str, user_id: str) -> bool:
        """Whether this person has this reaction to a message of the timeline, listed or not."""
        reactions = self._entries.get(sequence, {}).get("reactions", [])
        shown = next((each for each in reactions if each["emoji"] == emoji), None)
        if shown is None:
            return False
        is_listed = user_id in shown["user_ids"]
        return is_listed or (shown["count"] > len(shown["user_ids"]) and user_id in self._known(sequence, emoji))

    def on_change(self, listener: Callable[[Entry], None]) -> None:
        """Call `listener` with each entry after it was applied."""
        self._listeners.append(listener)

    def apply(self, entry: Entry) -> None:
        """Apply the chat's next entry. Unknown kinds are counted in `skipped`."""
        kind = kind_of(entry)
        if kind in CHANGES and self._reads:
            self._keep(entry)
        self._extend([entry])
        if kind in SHOWN:
            self._put(entry)
        elif kind in CHANGES:
            self._change(entry)
        else:
            self.skipped += 1
        for listener in self._listeners:
            listener(entry)

    # Reads

    def begin_read(self) -> Read:
        """Call before a page, a message or the pins are requested."""
        read = Read(self.last)
        self._reads.add(read)
        return read

    def end_page(self, read: Read, entries: Iterable[Entry]) -> bool:
        """Add a page of history. False: too much has changed meanwhile, read it again."""
        page = list(entries)
        if read in self._reads:
            self._extend(page)
        return self.end_read(read, page)

    def end_read(self, read: Read, entries: Iterable[Entry]) -> bool:
        """Add messages from outside the timeline. False: too much has changed meanwhile, read them again."""
        if read not in self._reads:
            return False
        page = list(entries)
        for entry in page:
            if kind_of(entry) in SHOWN:
                self._put(entry)
        self._apply_again([entry for entry in page if kind_of(entry) in CHANGES])
        self.cancel_read(read)
        return True

    def end_pins(self, read: Read, messages: Iterable[Entry]) -> bool:
        """Replace the pins, newest first. False: too much has changed meanwhile, read them again."""
        if read not in self._reads:
            return False
        pinned = list(messages)
        self.pins = [message["sequence"] for message in pinned]
        self._pins_changed = read.since
        return self.end_read(read, pinned)

    def cancel_read(self, read: Read) -> None:
        """Call where a read failed."""
        self._reads.discard(read)
        if not self._reads:
            self._kept.clear()

    def _keep(self, entry: Entry) -> None:
        if len(self._kept) == MAX_KEPT:
            self._reads.clear()
            self._kept.clear()
        else:
            self._kept.append(entry)

    def _apply_again(self, changes: list[Entry]) -> None:
        for change in sorted([*changes, *self._kept], key=lambda entry: int(entry["sequence"])):
            self._change(change)

    # The fold

    def _extend(self, entries: list[Entry]) -> None:
        """Widen the timeline to these entries."""
        sequences = [entry["sequence"] for entry in entries]
        self.last = max([self.last, *sequences])
        self._first = min([self._first or self.last, *sequences])

    def _put(self, entry: Entry) -> None:
        known = self._entries.get(entry["sequence"])
        if known is None or last_change(entry) >= last_change(known):
            self._entries[entry["sequence"]] = entry

    def _change(self, change: Entry) -> None:
        if kind_of(change) == "pin":
            self._pin(change)
            return
        if kind_of(change) == "reaction":
            self._remember(change)
        target = self._entries.get(change["target"])
        if target is not None and change["sequence"] > last_change(target):
            known = self._known(change["target"], change.get("emoji", ""))
            self._entries[change["target"]] = changed(target, change, known=known, max_listed=self._max_listed)

    def _remember(self, reaction: Entry) -> None:
        """Pages bring older reactions later."""
        people = self._reacted.setdefault((reaction["target"], reaction["emoji"]), {})
        before = people.get(reaction["sender_id"])
        if before is None or before.sequence < reaction["sequence"]:
            people[reaction["sender_id"]] = _Reacted(reaction["sequence"], reaction["action"] == "add")

    def _known(self, sequence: int, emoji: str) -> set[str]:
        people = self._reacted.get((sequence, emoji), {})
        return {user_id for user_id, reacted in people.items() if reacted.is_added}

    def _pin(self, change: Entry) -> None:
        if change["sequence"] <= self._pins_changed:
            return
        self._pins_changed = change["sequence"]
        others = [sequence for sequence in self.pins if sequence != change["target"]]
        self.pins = ([change["target"], *others] if change["action"] == "add" else others)[:MAX_PINS]


def kind_of(entry: Entry) -> str:
    kind: str = entry.get("kind", "message")
    return kind


def last_change(entry: Entry) -> int:
    sequence: int = entry.get("last_change", 0)
    return sequence


def changed(
    message: Entry, change: Entry, *, known: Iterable[str] = (), max_listed: int = MAX_LISTED_REACTORS
) -> Entry:
    """The message after an edit, a deletion or a reaction. `known` may name more than those who are listed."""
    after = {**message, "last_change": change["sequence"]}
    match change["kind"]:
        case "edit":
            after |= {"content": change["content"], "edited_at": change["created_at"]}
            _set(after, "mentions", change.get("mentions"))
        case "deletion":
            after |= {"content": "", "deleted_at": change["created_at"]}
            for name in ("mentions", "attachments", "reactions"):
                after.pop(name, None)
        case "reaction":
            _set(after, "reactions", _react(message.get("reactions", []), change, set(known), max_listed))
    return after


def _react(reactions: list[Entry], change: Entry, known: set[str], max_listed: int) -> list[Entry]:
    by_emoji = {reaction["emoji"]: reaction for reaction in reactions}
    emoji, user_id = change["emoji"], change["sender_id"]
    before = by_emoji.pop(emoji, {"count": 0, "user_ids": []})
    others = (known | set(before["user_ids"])) - {user_id}
    is_added = change["action"] == "add"
    if count := before["count"] + (1 if is_added else -1):
        user_ids = sorted(others | {user_id} if is_added else others)[:max_listed]
        by_emoji[emoji] = {"emoji": emoji, "count": count, "user_ids": user_ids}
    return [by_emoji[emoji] for emoji in sorted(by_emoji)]


def _set(entry: Entry, name: str, value: Any) -> None:
    """Absent means none."""
    if value:
        entry[name] = value
    else:
        entry.pop(name, None)
