"""The fold of a chat's log: old state + entries = fresh state, whatever a client reads meanwhile."""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from parley_client import ChatLog
from parley_client.log import MAX_KEPT, Read

Entry = dict[str, Any]
PEOPLE, EMOJI = ("ada", "ben", "cem", "dan"), ("👍", "🎉")
LISTED = 2
"""How many of those who reacted the machine's server lists."""


def entry(sequence: int, kind: str = "message", *, sender_id: str = "ada", **fields: Any) -> Entry:
    content = fields.pop("content", f"text {sequence}" if kind == "message" else "")
    about = {"sequence": sequence, "kind": kind, "sender_id": sender_id, "created_at": f"t{sequence}"}
    return {**about, "content": content, **fields}


@dataclass
class Server:
    """A chat as the server shows it, computed anew from its entries for every read."""

    entries: list[Entry] = field(default_factory=list)

    def commit(self, kind: str, **fields: Any) -> None:
        self.entries.append(entry(len(self.entries) + 1, kind, **fields))

    def messages(self) -> list[int]:
        """The messages that can be changed."""
        deleted = {change["target"] for change in self.entries if change["kind"] == "deletion"}
        return [one["sequence"] for one in self.entries if one["kind"] == "message" and one["sequence"] not in deleted]

    def page(self, *, before: int, limit: int) -> list[Entry]:
        """Entries before a sequence, newest first, as history shows them."""
        return [self.stands(sequence) for sequence in range(before - 1, 0, -1)][:limit]

    def pins(self) -> list[Entry]:
        """The pinned messages, newest first."""
        pinned: list[int] = []
        for change in self.entries:
            if change["kind"] == "pin":
                pinned = [sequence for sequence in pinned if sequence != change["target"]]
                pinned = [change["target"], *pinned] if change["action"] == "add" else pinned
        return [self.stands(sequence) for sequence in pinned]

    def stands(self, sequence: int) -> Entry:
        shown = dict(self.entries[sequence - 1])
        changes = [one for one in self.entries if one.get("target") == sequence and one["kind"] != "pin"]
        if not changes:
            return shown
        shown["last_change"] = changes[-1]["sequence"]
        edits = [change for change in changes if change["kind"] == "edit"]
        if edits:
            shown |= {"content": edits[-1]["content"], "edited_at": edits[-1]["created_at"]}
        if changes[-1]["kind"] == "deletion":
            return shown | {"content": "", "deleted_at": changes[-1]["created_at"]}
        if reactions := self._reactions(changes):
            shown["reactions"] = reactions
        return shown

    def _reactions(self, changes: list[Entry]) -> list[Entry]:
        return [
            {"emoji": emoji, "count": len(ids), "user_ids": sorted(ids)[:LISTED]}
            for emoji, ids in sorted(_reactors(changes).items())
            if ids
        ]

    def has_reacted(self, sequence: int, emoji: str, user_id: str) -> bool:
        changes = [one for one in self.entries if one.get("target") == sequence]
        is_deleted = any(change["kind"] == "deletion" for change in changes)
        return not is_deleted and user_id in _reactors(changes).get(emoji, ())


def _reactors(changes: list[Entry]) -> dict[str, set[str]]:
    users: dict[str, set[str]] = {}
    for change in changes:
        if change["kind"] == "reaction":
            of_emoji = users.setdefault(change["emoji"], set())
            (of_emoji.add if change["action"] == "add" else of_emoji.discard)(change["sender_id"])
    return users


class Clients(RuleBasedStateMachine):
    """A client that hears entries late, while pages and pins that the server read earlier are on their way."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.log = ChatLog(max_listed=LISTED)
        self.heard = 0
        self.reads: list[tuple[str, Read, list[Entry] | None]] = []
        self.has_pins = False

    @initialize(is_open=st.booleans())
    def open(self, is_open: bool) -> None:
        """Half of the clients begin with a log, so that most of what happens concerns it."""
        if is_open:
            self.server.commit("message")
            self.log.end_page(self.log.begin_read(), self.server.page(before=2, limit=1))

    @rule(kind=st.sampled_from(("message", "message", "notice", "poll")))
    def commit_entry(self, kind: str) -> None:
        self.server.commit(kind)

    @precondition(lambda self: self.server.messages())
    @rule(data=st.data(), kind=st.sampled_from(("edit", "deletion", "reaction", "pin")))
    def commit_change(self, data: st.DataObject, kind: str) -> None:
        target = data.draw(st.sampled_from(self.server.messages()))
        match kind:
            case "edit":
                self.server.commit(kind, target=target, content=f"edit {len(self.server.entries)}")
            case "deletion":
                self.server.commit(kind, target=target)
            case "reaction":
                emoji, people = data.draw(st.sampled_from(EMOJI)), data.draw(st.sets(st.sampled_from(PEOPLE)))
                for user_id in sorted(people):
                    action = "remove" if self.server.has_reacted(target, emoji, user_id) else "add"
                    self.server.commit(kind, target=target, emoji=emoji, action=action, sender_id=user_id)
            case "pin":
                is_pinned = target in [message["sequence"] for message in self.server.pins()]
                self.server.commit(kind, target=target, action="remove" if is_pinned else "add")

    @precondition(lambda self: self.log.last and self.heard < len(self.server.entries))
    @rule()
    def hear(self) -> None:
        self.heard = max(self.heard, self.log.last)
        if self.heard < len(self.server.entries):
            self.log.apply(self.server.entries[self.heard])
            self.heard += 1

    @precondition(lambda self: self.log.last or not self.reads)
    @rule()
    def request_page(self) -> None:
        """One first page, then any number of older ones."""
        self.reads.append(("page", self.log.begin_read(), None))

    @precondition(lambda self: self.log.last)
    @rule()
    def request_pins(self) -> None:
        self.reads.append(("pins", self.log.begin_read(), None))

    @rule(limit=st.integers(1, 4))
    def server_reads(self, limit: int) -> None:
        """The server reads what was requested; the answers are on their way."""
        before = self.log.first or len(self.server.entries) + 1
        self.reads = [
            (what, read, answer if answer is not None else self._answer(what, before, limit))
            for what, read, answer in self.reads
        ]

    def _answer(self, what: str, before: int, limit: int) -> list[Entry]:
        return self.server.pins() if what == "pins" else self.server.page(before=before, limit=limit)

    @precondition(lambda self: self.reads and self.reads[0][2] is not None)
    @rule()
    def answer_arrives(self) -> None:
        what, read, answer = self.reads.pop(0)
        (self.log.end_pins if what == "pins" else self.log.end_page)(read, answer or [])
        self.has_pins |= what == "pins"

    @precondition(lambda self: self.log.last)
    @rule()
    def come_to_rest(self) -> None:
        self.server_reads(limit=4)
        while self.reads:
            self.answer_arrives()
        for _ in range(len(self.server.entries)):
            self.hear()

    @invariant()
    def at_rest_the_client_shows_what_the_server_shows(self) -> None:
        if not self.log.last or self.reads or max(self.heard, self.log.last) < len(self.server.entries):
            return
        shown = self.server.page(before=len(self.server.entries) + 1, limit=1_000)[::-1]
        kinds = ("message", "notice")
        assert self.log.timeline == [one for one in shown if one["sequence"] >= self.log.first and one["kind"] in kinds]
        for message in self.log.timeline:
            for emoji, user_id in product(EMOJI, PEOPLE):
                has_reacted = self.server.has_reacted(message["sequence"], emoji, user_id)
                assert self.log.has_reacted(message["sequence"], emoji, user_id) == has_reacted
        if self.has_pins:
            assert self.log.pins == [message["sequence"] for message in self.server.pins()]


TestClients = pytest.mark.filterwarnings("ignore")(Clients.TestCase)
TestClients.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


class TestChatLog:
    def test_a_change_that_arrives_before_its_target_is_applied_to_the_page(self) -> None:
        """A page is requested, the query reads #7, edit #9 arrives live, then the page brings the old #7."""
        log = ChatLog()
        log.apply(entry(8))
        read = log.begin_read()
        log.apply(entry(9, "edit", target=7, content="new"))
        log.end_page(read, [entry(7, content="old")])
        assert [(one["sequence"], one["content"]) for one in log.timeline] == [(7, "new"), (8, "text 8")]

    def test_a_page_that_is_newer_than_an_entry_stays(self) -> None:
        log = ChatLog()
        log.end_page(log.begin_read(), [entry(1, content="newest", last_change=5)])
        log.apply(entry(3, "edit", target=1, content="older"))
        assert log.timeline[0]["content"] == "newest"

    def test_a_deletion_leaves_an_empty_slot(self) -> None:
        log = ChatLog()
        log.apply(entry(1, mentions=["ben"]))
        log.apply(entry(2, "reaction", target=1, emoji="👍", action="add", sender_id="ben"))
        log.apply(entry(3, "deletion", target=1))
        (shown,) = log.timeline
        assert (shown["content"], shown["deleted_at"], shown["last_change"]) == ("", "t3", 3)
        assert not {"mentions", "reactions"} & set(shown)

    def test_an_edit_replaces_the_mentions(self) -> None:
        log = ChatLog()
        log.apply(entry(1, mentions=["ben"]))
        log.apply(entry(2, "edit", target=1, content="nobody"))
        assert "mentions" not in log.timeline[0]

    def test_counts_are_exact_where_not_every_name_is_listed(self) -> None:
        log = ChatLog()
        names = [f"user{number:02}" for number in range(20)]
        log.apply(entry(1, reactions=[{"emoji": "👍", "count": 30, "user_ids": names}]))
        log.apply(entry(2, "reaction", target=1, emoji="👍", action="add", sender_id="zoe"))
        assert log.timeline[0]["reactions"] == [{"emoji": "👍", "count": 31, "user_ids": names}]

    def test_who_reacted_behind_the_list_is_known_and_moves_up(self) -> None:
        log = ChatLog(max_listed=2)
        log.apply(entry(1))
        for sequence, name in enumerate(("ben", "cem", "ada", "dan"), 2):
            log.apply(entry(sequence, "reaction", target=1, emoji="👍", action="add", sender_id=name))
        assert log.timeline[0]["reactions"] == [{"emoji": "👍", "count": 4, "user_ids": ["ada", "ben"]}]
        assert (log.has_reacted(1, "👍", "dan"), log.has_reacted(1, "👍", "zoe")) == (True, False)
        log.apply(entry(6, "reaction", target=1, emoji="👍", action="remove", sender_id="ada"))
        assert log.timeline[0]["reactions"] == [{"emoji": "👍", "count": 3, "user_ids": ["ben", "cem"]}]
        log.apply(entry(7, "reaction", target=1, emoji="👍", action="remove", sender_id="dan"))
        assert not log.has_reacted(1, "👍", "dan")

    def test_a_page_tells_who_reacted_behind_the_list(self) -> None:
        log = ChatLog(max_listed=1)
        shown = entry(1, reactions=[{"emoji": "👍", "count": 2, "user_ids": ["ada"]}], last_change=3)
        reactions = [
            entry(sequence, "reaction", target=1, emoji="👍", action="add", sender_id=name)
            for sequence, name in ((2, "ben"), (3, "ada"))
        ]
        log.end_page(log.begin_read(), [*reactions[::-1], shown])
        assert log.has_reacted(1, "👍", "ben")
        log.apply(entry(4, "reaction", target=1, emoji="👍", action="remove", sender_id="ada"))
        assert log.timeline[0]["reactions"] == [{"emoji": "👍", "count": 1, "user_ids": ["ben"]}]

    def test_unknown_kinds_are_counted(self) -> None:
        log = ChatLog()
        log.apply(entry(1, "poll"))
        assert (log.skipped, log.last, log.timeline) == (1, 1, [])

    def test_listeners_get_each_entry_after_it_was_applied(self) -> None:
        log, seen = ChatLog(), list[tuple[str, str]]()
        log.on_change(lambda change: seen.append((change["kind"], log.timeline[0]["content"])))
        log.apply(entry(1, content="one"))
        log.apply(entry(2, "edit", target=1, content="two"))
        assert seen == [("message", "one"), ("edit", "two")]

    def test_a_pinned_message_outside_the_timeline_is_found_and_follows_its_changes(self) -> None:
        log = ChatLog()
        log.end_page(log.begin_read(), [entry(90)])
        log.end_pins(log.begin_read(), [entry(3)])
        log.apply(entry(91, "edit", target=3, content="new"))
        found = log.find(3)
        assert found is not None
        assert (log.pins, found["content"], [one["sequence"] for one in log.timeline]) == ([3], "new", [90])

    def test_a_page_older_than_the_pins_does_not_change_them(self) -> None:
        log = ChatLog()
        log.end_page(log.begin_read(), [entry(90)])
        log.end_pins(log.begin_read(), [])
        log.end_page(log.begin_read(), [entry(7, "pin", target=3, action="add")])
        assert log.pins == []

    def test_what_is_kept_is_bounded_and_the_read_is_repeated(self) -> None:
        log = ChatLog()
        log.apply(entry(1))
        read = log.begin_read()
        for sequence in range(2, MAX_KEPT + 3):
            log.apply(entry(sequence, "edit", target=1, content="x"))
        assert not log.end_page(read, [])
        assert log.end_page(log.begin_read(), [])
