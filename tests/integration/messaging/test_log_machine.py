"""Old state + entries = fresh state: two processes write a chat's log, and clients that follow it agree with the store.

The clients fold with the reference client's own code: one that was online, one that reads the log afterwards, and one
that pages back through history meanwhile, with answers that arrive late.
"""

from concurrent.futures import Future
from typing import Any, ClassVar

import orjson
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from parley_client import ChatLog
from parley_client.log import Read

from chats.domain import ChatType, Command, CommandType, Role
from chats.errors import ChatNotFound, NothingToChange, RoleTooLow
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import UserId
from foundation.stores.errors import StoreUnavailable
from messaging.domain import Action, Draft, Kind, Sent
from messaging.errors import MessageDeleted, MessageNotFound, NotYourMessage
from messaging.services.history import Window
from tests.integration.messaging.services import Services

Entry = dict[str, Any]
BUDGET = settings(
    max_examples=40,
    phases=(Phase.generate,),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
EXPECTED = (
    ChatNotFound, MessageDeleted, MessageNotFound, NothingToChange, NotYourMessage, RoleTooLow, StoreUnavailable,
)  # fmt: skip
"""Refusals that a random change may meet. `StoreUnavailable`: where an answer was lost, and a later draft is stored."""
LISTED = 2
"""How many of those who reacted are listed."""
WHO = st.sampled_from(("owner", "admin", "mia", "max"))
PROCESS = st.integers(0, 1)
EMOJI = st.sampled_from(("👍", "❤️", "🎉"))
ACTION = st.sampled_from(Action)


class LogMachine(RuleBasedStateMachine):
    """`online` gets the events of both processes, in the order of their sequences."""

    _processes: ClassVar[tuple[Services, Services]]

    @initialize()
    def create_chat(self) -> None:
        for process in self._processes:
            process.wire.intercept = None
        roles = {"owner": Role.OWNER, "admin": Role.ADMIN, "mia": Role.MEMBER, "max": Role.MEMBER}
        self._chat_id, self._people = self._processes[0].create_room(ChatType.GROUP, **roles)
        self._count = 0
        self._pending: list[tuple[Draft, Future[Sent]]] = []
        self._sent: list[tuple[Draft, Sent]] = []
        self._online, self._paging = ChatLog(max_listed=LISTED), ChatLog(max_listed=LISTED)
        self._arrived: dict[int, Entry] = {}
        self._seen = [len(process.fake_producer.events) for process in self._processes]
        self._page: tuple[Read, list[Entry]] | None = None

    # What people do. The answers are collected later, so that changes of both processes overlap.

    @rule(who=WHO, process=PROCESS, replies=st.booleans())
    def send(self, who: str, process: int, replies: bool) -> None:
        reply_to = self._online.last if replies and self._online.last else None
        self._submit(process, who, Kind.MESSAGE, content=f"text {self._count}", reply_to=reply_to)

    @rule(who=WHO, process=PROCESS, back=st.integers(0, 12), mention=st.booleans())
    def edit(self, who: str, process: int, back: int, mention: bool) -> None:
        mentions = (self._people["max"],) if mention else ()
        self._change(process, who, Kind.EDIT, back, content=f"edit {self._count}", mentions=mentions)

    @rule(who=WHO, process=PROCESS, back=st.integers(0, 12))
    def delete(self, who: str, process: int, back: int) -> None:
        self._change(process, who, Kind.DELETION, back)

    @rule(people=st.sets(WHO, min_size=1), process=PROCESS, back=st.integers(0, 2), emoji=EMOJI, action=ACTION)
    def react(self, people: set[str], process: int, back: int, emoji: str, action: Action) -> None:
        """To one of the last messages, so that many react to the same."""
        messages = [each["sequence"] for each in self._online.timeline if each["kind"] == "message"] or [1]
        for who in sorted(people):
            target = messages[-1 - back % len(messages)]
            self._submit(process, who, Kind.REACTION, target=target, emoji=emoji, action=action)

    @rule(process=PROCESS, back=st.integers(0, 8), action=ACTION)
    def pin(self, process: int, back: int, action: Action) -> None:
        self._change(process, "admin", Kind.PIN, back, action=action)

    @rule(process=PROCESS, who=st.sampled_from(("owner", "mia")), name=st.sampled_from(("Team", "Crew")))
    def rename(self, process: int, who: str, name: str) -> None:
        self._submit(process, who, Kind.NOTICE, command=Command(CommandType.RENAME, name=name))

    @rule(process=PROCESS, type=st.sampled_from((CommandType.ADD, CommandType.REMOVE)))
    def change_members(self, process: int, type: CommandType) -> None:
        self._submit(process, "owner", Kind.NOTICE, command=Command(type, self._people["max"]))

    # What goes wrong

    @rule(process=PROCESS)
    def lose_an_answer(self, process: int) -> None:
        """The store writes, and the process does not learn of it."""
        self._processes[process].wire.fail("TransactWriteItems", [StoreUnavailable("lost")], after_sending=True)

    @rule(process=PROCESS, back=st.integers(0, 20))
    def repeat(self, process: int, back: int) -> None:
        if not self._sent:
            return
        draft, first = self._sent[-1 - back % len(self._sent)]
        try:
            again = self._processes[process].send(draft)
        except ChatNotFound:
            return
        assert (again.duplicate, again.message.sequence) == (True, first.message.sequence)

    # What clients do

    @rule()
    def receive(self) -> None:
        """The events so far arrive at the clients that are online."""
        self._await_answers()
        for index, process in enumerate(self._processes):
            events, self._seen[index] = (
                process.fake_producer.events[self._seen[index] :],
                len(process.fake_producer.events),
            )
            for event in events:
                if event.partition_key == self._chat_id:
                    self._arrived.setdefault(event.payload["sequence"], _as_received(event.payload))
        while (entry := self._arrived.get(self._online.last + 1)) is not None:
            self._online.apply(entry)
            self._paging.apply(entry)

    @rule(limit=st.integers(1, 20), back=st.integers(0, 20))
    def ask_for_a_page(self, limit: int, back: int) -> None:
        if self._page is None and self._paging.last:
            before = max(2, self._paging.last + 1 - back)
            read = self._paging.begin_read()
            self._page = (read, self._read(Window(before=before, limit=limit)))

    @rule()
    def get_the_page(self) -> None:
        if self._page is not None:
            assert self._paging.end_page(*self._page)
            self._page = None

    def teardown(self) -> None:
        if not hasattr(self, "_chat_id"):
            return
        self.receive()
        self.get_the_page()
        later = ChatLog(max_listed=LISTED)
        while page := self._read(Window(after=later.last, limit=7)):
            assert later.end_page(later.begin_read(), page)
        stored = self._processes[0].stored(self._chat_id)
        assert [entry.sequence for entry in stored] == list(range(1, len(stored) + 1))
        assert [entry.others for entry in stored] == _others(stored)
        counter = self._processes[0].counter(self._chat_id)
        assert (counter.sequence, counter.others) == (len(stored), stored[-1].others if stored else 0)
        messages = [entry.sequence for entry in stored if entry.kind is Kind.MESSAGE]
        assert counter.latest_message == (messages[-1] if messages else 0)
        assert counter.members == len(self._processes[0].run(self._processes[0].posting.list_member_ids(self._chat_id)))
        assert self._online.timeline == later.timeline
        assert self._paging.timeline == later.timeline
        pins = self._processes[0].run(self._processes[0].annotations.list_pins(self._chat_id, self._people["owner"]))
        shown = [sequence for sequence in self._online.pins if "deleted_at" not in (self._online.find(sequence) or {})]
        assert shown == [message.sequence for message in pins]

    def _change(self, process: int, who: str, kind: Kind, back: int, **fields: Any) -> None:
        target = max(1, self._online.last - back)
        self._submit(process, who, kind, target=target, **fields)

    def _submit(self, process: int, who: str, kind: Kind, **fields: Any) -> None:
        self._count += 1
        draft = Draft(self._chat_id, self._people[who], f"id-{self._count}", kind=kind, **fields)
        self._pending.append((draft, self._processes[process].submit(draft)))

    def _await_answers(self) -> None:
        for draft, answer in self._pending:
            error = answer.exception(20)
            if error is None:
                sent = answer.result()
                if not sent.unchanged and not sent.duplicate:
                    self._sent.append((draft, sent))
            else:
                assert isinstance(error, ParleyError)
                assert isinstance(error, EXPECTED) or error.code == "already_a_member" or "member" in error.code
        self._pending.clear()

    def _read(self, window: Window) -> list[Entry]:
        reader: UserId = self._people["owner"]
        page = self._processes[1].page(self._chat_id, reader, window)
        entries: list[Entry] = orjson.loads(page.encoded_messages)
        return entries


def _as_received(payload: object) -> Entry:
    entry: Entry = orjson.loads(orjson.dumps(payload))
    return entry


def _others(stored: list[Any]) -> list[int]:
    counts: list[int] = []
    for entry in stored:
        counts.append((counts[-1] if counts else 0) + (entry.kind is not Kind.MESSAGE))
    return counts


def test_every_client_ends_with_what_the_store_has(
    services: Services, other_process: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("messaging.domain.SHOWN_REACTORS", LISTED)
    LogMachine._processes = (services, other_process)
    run_state_machine_as_test(LogMachine, settings=BUDGET)
