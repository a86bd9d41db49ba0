"""Old state + entries = fresh state, in the running system: whatever happens, every client shows what the server shows.

People change a chat through two `web` processes, and lose their connections. In each sequence one of the processes is
killed, and in one sequence `fanout`, too. Both reference clients follow the chat with their own code: those of the
people, who are online; one that goes offline and syncs later; one that pages back through history meanwhile, with
answers that arrive late; and the web client's, live and by what the others' logs did.

The sequences are the same in every run. `LOG_MACHINE_SEED=7` runs others, `LOG_MACHINE_EXAMPLES=200` more of them.
"""

import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic
from typing import Any, ClassVar

import httpx
import parley_client.client
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from parley_client import Client, SendFailed

from engines.processes import PROJECT_ROOT
from foundation.kernel.ids import ChatId
from foundation.kernel.loops import ServiceLoop
from tests.doubles import eventually
from tests.e2e.faults.followers import Follower, RecordingLog, WebClient, until_answered
from tests.e2e.sockets import all_connected
from tests.e2e.system import Device, Service, System

SEED = int(os.environ.get("LOG_MACHINE_SEED", "1"))
BUDGET = settings(
    max_examples=int(os.environ.get("LOG_MACHINE_EXAMPLES", "5")),
    phases=(Phase.generate,),
    stateful_step_count=25,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
KILL_FANOUT_IN_EVERY = 5
"""Nothing is delivered until Kafka takes the partitions away from the killed process: seconds."""
WITHIN = 40.0
REFUSALS = {"chat_not_found", "forbidden", "message_deleted", "message_not_found"}
"""Codes that a random change may be refused with."""
WHO = st.sampled_from(("owner", "admin", "mia", "max"))
PROCESS = st.integers(0, 1)
EMOJI = st.sampled_from(("👍", "❤️", "\uff01"))
"""The last one is before the first by code points, as the server sorts them, and behind it in UTF-16."""
ACTION = st.sampled_from(("add", "remove"))
Answer = dict[str, Any]
Post = Callable[[Client], Coroutine[Any, Any, Answer]]


@dataclass(frozen=True)
class Change:
    kind: str
    who: str
    back: int
    emoji: str
    action: str
    mentions: bool


KINDS = ("send", "reply", "edit", "edit", "react", "react", "react", "pin", "pin", "delete", "lose")
CHANGES = st.lists(
    st.builds(Change, st.sampled_from(KINDS), WHO, st.integers(0, 8), EMOJI, ACTION, st.booleans()),
    min_size=1,
    max_size=5,
)


@dataclass(frozen=True)
class Event:
    kind: str
    process: int
    who: str
    number: int
    is_on: bool


EVENTS = st.builds(
    Event,
    st.sampled_from(("lose", "members", "kill", "repeat", "away", "page", "rename", "wait", "open")),
    PROCESS,
    WHO,
    st.integers(0, 20),
    st.booleans(),
)


class Stage:
    """The system, four people who are online for the whole test, and one who never is."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.loop = ServiceLoop()
        self.chats: list[ChatId] = []
        self.kinds: Counter[str] = Counter()
        """How many entries of each kind there were in all sequences."""
        names = ("owner", "admin", "mia", "max", "absent")
        self.devices = dict(zip(names, system.users(len(names)), strict=True))
        self.clients: dict[str, Follower] = {}
        self._stack = AsyncExitStack()
        self.web_client = WebClient(system.webs[0], system.another_device(self.devices["admin"]))

    def __enter__(self) -> "Stage":
        for first, name in enumerate(("owner", "admin", "mia", "max")):
            self.clients[name] = self.connect(self.devices[name], first, self._stack)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.run(self._stack.aclose())
        self.loop.close()
        self.web_client.__exit__()

    def connect(self, device: Device, first: int, stack: AsyncExitStack) -> Follower:
        """A client that is connected, to this process first."""
        turns = itertools.count(first)

        async def connect() -> Follower:
            webs = self.system.webs
            follower = Follower(lambda: webs[next(turns) % len(webs)].socket_url, device)
            await stack.enter_async_context(follower)
            await all_connected([follower])
            return follower

        return self.loop.run(connect())

    def another(self, who: str) -> Device:
        return self.system.another_device(self.devices[who])

    def rest(self, process: int, who: str, method: str, path: str, **body: Any) -> tuple[int, Answer]:
        """An answer of this process; of the other one while this one is down."""
        deadline = monotonic() + WITHIN
        for turn in itertools.count(process):
            try:
                url = f"{self.system.webs[turn % 2].url}{path}"
                answer = httpx.request(method, url, headers=self.devices[who].headers, json=body or None, timeout=20.0)
            except httpx.TransportError:
                assert monotonic() < deadline, "no process answers"
                continue
            if answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
                return answer.status_code, answer.json() if answer.content else {}
            assert monotonic() < deadline, answer.text
        raise AssertionError("not reached")

    def create_chat(self) -> ChatId:
        members = [device.user_id for name, device in self.devices.items() if name != "owner"]
        status, chat = self.rest(0, "owner", "POST", "/api/chats", type="group", name="Team", members=members)
        assert status == HTTPStatus.CREATED, chat
        self.chats.append(ChatId(chat["chat_id"]))
        self.rest(
            0, "owner", "PATCH", f"/api/chats/{self.chats[-1]}/members/{self.devices['admin'].user_id}", role="admin"
        )
        return self.chats[-1]


class LogMachine(RuleBasedStateMachine):
    _stage: ClassVar[Stage]
    _examples: ClassVar[Iterator[int]]

    @initialize()
    def create_chat(self) -> None:
        self._may_kill = True
        self._may_kill_fanout = next(self._examples) % KILL_FANOUT_IN_EVERY == 0
        stage = self._stage
        self._chat_id = stage.create_chat()
        self._path = f"/api/chats/{self._chat_id}"
        self._count = 0
        self._pending: list[Future[Answer]] = []
        self._sent: list[tuple[str, str, Answer, int]] = []
        self._stack = AsyncExitStack()
        self._later = stage.connect(stage.another("mia"), 1, self._stack)
        self._page: Future[bool] | None = None
        self._is_open_in_web_client = False
        self._logs = {name: self._open(client) for name, client in stage.clients.items()}
        self._logs["later"] = self._open(self._later)
        for who in [*stage.clients, *stage.clients]:
            self._send(who)
        self._wait_for_answers()
        last = max(sequence for *_, sequence in self._sent)
        eventually(lambda: all(log.last >= last for log in self._logs.values()), within=WITHIN)
        self._paging = stage.connect(stage.another("owner"), 0, self._stack)
        self._logs["paging"] = self._open(self._paging, limit=1)

    @rule(changes=CHANGES, event=EVENTS)
    def step(self, changes: Sequence[Change], event: Event) -> None:
        """One rule for all: of several, Hypothesis uses few in a sequence."""
        self._change_messages(changes)
        match event.kind:
            case "wait":
                self._wait_for_answers()
            case "rename":
                self._rename(event)
            case "members":
                self._change_members(event)
            case "repeat":
                self._repeat(event)
            case "lose":
                self._lose_a_connection(event.who)
            case "kill":
                self._kill_a_process(event.process)
            case "away":
                self._go_offline_or_come_back(is_away=event.is_on)
            case "page":
                self._page_back(limit=1 + event.number // 2)
            case "open":
                self._open_in_the_web_client()

    # What people do. The answers are collected later, so that changes through both processes overlap.

    def _change_messages(self, changes: Sequence[Change]) -> None:
        for one in changes:
            named = [self._stage.devices["max"].user_id] if one.mentions else []
            match one.kind:
                case "send":
                    self._send(one.who, mentions=named)
                case "reply":
                    self._send(one.who, mentions=named, reply_to=self._target(one.who, one.back))
                case "edit":
                    self._edit(one.who, one.back, named)
                case "lose":
                    self._lose_a_connection(one.who)
                case _:
                    self._change(one)

    def _send(self, who: str, **fields: Any) -> None:
        content = self._text()
        self._post(who, lambda client: client.send(self._chat_id, content, **fields), content=content, **fields)

    def _edit(self, who: str, back: int, named: Sequence[str]) -> None:
        target, content = self._target(who, back, is_own=True), self._text()
        self._post(
            who,
            lambda client: client.edit(self._chat_id, target, content, mentions=named),
            target=target, content=content, mentions=named,
        )  # fmt: skip

    def _change(self, one: Change) -> None:
        chat_id, target = self._chat_id, self._target(one.who, one.back)
        posts: dict[str, Post] = {
            "react": lambda client: client.react(chat_id, target, one.emoji, action=one.action),
            "pin": lambda client: client.pin(chat_id, target, action=one.action),
            "delete": lambda client: client.delete(chat_id, target),
        }
        self._post(one.who, posts[one.kind])

    def _rename(self, event: Event) -> None:
        self._stage.rest(event.process, event.who, "PATCH", self._path, name=f"Team {event.number}")

    def _change_members(self, event: Event) -> None:
        user_id, action = self._stage.devices["max"].user_id, "add" if event.is_on else "remove"
        self._stage.rest(event.process, "owner", "POST", f"{self._path}/members", user_id=user_id, action=action)

    def _wait_for_answers(self) -> None:
        for answer in self._pending:
            error = answer.exception(WITHIN)
            assert error is None or (isinstance(error, SendFailed) and error.code in REFUSALS), error
        self._pending.clear()

    # What goes wrong

    def _repeat(self, event: Event) -> None:
        """A message or an edit, under the same id, perhaps through another process."""
        if not self._sent:
            return
        who, key, fields, sequence = self._sent[-1 - event.number % len(self._sent)]
        target = fields.get("target")
        body = {name: value for name, value in fields.items() if name != "target"}
        method, path = ("POST", "messages") if target is None else ("PATCH", f"messages/{target}")
        status, answer = self._stage.rest(
            event.process, who, method, f"{self._path}/{path}", client_message_id=key, **body
        )  # fmt: skip
        if status == HTTPStatus.NOT_FOUND:
            assert (who, answer["code"]) == ("max", "chat_not_found")
        else:
            assert (status, answer["duplicate"], answer["sequence"]) == (HTTPStatus.OK, True, sequence)

    def _lose_a_connection(self, who: str) -> None:
        """With drafts on their way: the client sends them again under the same ids."""
        self._stage.loop.call_soon(self._stage.clients[who].reconnect)

    def _kill_a_process(self, process: int) -> None:
        """One of the two, once in a sequence: it starts while the sequence goes on."""
        if not self._may_kill:
            return
        self._may_kill = False
        system = self._stage.system
        for web in system.webs:
            web.wait_until_ready()
        killed: list[Service] = [system.webs[process], *(system.fanouts if self._may_kill_fanout else ())]
        for service in killed:
            service.kill()
            service.restart()

    # What those do who are not online all the time

    def _go_offline_or_come_back(self, *, is_away: bool) -> None:
        self._stage.loop.call_soon(self._later.leave if is_away else self._later.come_back)

    def _page_back(self, *, limit: int) -> None:
        """Ask for an older page; its answer waits at the client until this is called again."""
        if self._page is not None:
            self._get_the_page()
            return
        paging = self._paging
        self._stage.loop.call_soon(paging.may_answer.clear)
        self._page = self._stage.loop.submit(until_answered(lambda: paging.load_older(self._chat_id, limit=limit)))

    def _get_the_page(self) -> None:
        self._stage.loop.call_soon(self._paging.may_answer.set)
        if self._page is not None:
            self._page.result(WITHIN)
            self._page = None

    def _open_in_the_web_client(self) -> None:
        if not self._is_open_in_web_client:
            self._stage.web_client.open(self._chat_id)
            self._is_open_in_web_client = True

    # What must hold

    def teardown(self) -> None:
        if hasattr(self, "_logs"):
            try:
                self._require_the_same()
            finally:
                self._stage.loop.run(self._stack.aclose())

    def _require_the_same(self) -> None:
        stage, web_client = self._stage, self._stage.web_client
        self._kill_a_process(1)
        self._wait_for_answers()
        self._get_the_page()
        self._go_offline_or_come_back(is_away=False)
        self._change_members(Event("members", process=0, who="owner", number=0, is_on=True))
        self._open_in_the_web_client()
        last = stage.loop.run(stage.clients["owner"].send(self._chat_id, "the end"))["sequence"]
        entries = self._history()
        stage.kinds.update(entry["kind"] for entry in entries)
        assert [entry["sequence"] for entry in entries] == list(range(1, last + 1))
        fresh = [entry for entry in entries if entry["kind"] in ("message", "notice")]
        pins = [message["sequence"] for message in stage.rest(0, "owner", "GET", f"{self._path}/pins")[1]["items"]]
        for name, log in self._logs.items():
            eventually(lambda log=log: log.last == last, within=WITHIN)  # type: ignore[misc]
            while log.first > 1:
                self._load_older(name)
            _require(name, log.shown, fresh, pins)
            _require(f"{name}, in parley.js", web_client.replay(log), fresh, pins)
        _require("parley.js", web_client.shown(self._chat_id, until=last), fresh, pins)
        messages = sum(entry["kind"] == "message" for entry in entries)
        inbox = stage.rest(1, "absent", "GET", "/api/chats?limit=1")[1]["items"]
        assert [(chat["chat_id"], chat["unread_count"]) for chat in inbox] == [(self._chat_id, messages)]

    def _history(self) -> list[Answer]:
        """The chat as a reader sees it who comes now."""
        entries: list[Answer] = []
        while True:
            query = f"after_sequence={len(entries)}&limit=7"
            page = self._stage.rest(1, "owner", "GET", f"{self._path}/messages?{query}")[1]
            entries += page["messages"]
            if not page["has_more"]:
                return entries

    def _load_older(self, name: str) -> None:
        client = {"later": self._later, "paging": self._paging}.get(name) or self._stage.clients[name]
        self._stage.loop.run(until_answered(lambda: client.load_older(self._chat_id, limit=7)))

    def _open(self, client: Client, *, limit: int = 100) -> RecordingLog:
        log = self._stage.loop.run(until_answered(lambda: client.open(self._chat_id, limit=limit)))
        assert isinstance(log, RecordingLog)
        return log

    def _target(self, who: str, back: int, *, is_own: bool = False) -> int:
        """A message that this person sees, deleted or not, or a notice."""
        seen = self._logs[who].timeline
        if is_own:
            seen = [entry for entry in seen if entry["sender_id"] == self._stage.devices[who].user_id]
        return int(seen[-1 - back % len(seen)]["sequence"])

    def _text(self) -> str:
        self._count += 1
        return f"text {self._count}"

    def _post(self, who: str, post: Post, **fields: Any) -> None:
        """`fields` are those of messages and edits, which `repeat` sends again."""

        async def run() -> Answer:
            answer = await post(self._stage.clients[who])
            if fields:
                self._sent.append((who, answer["client_message_id"], fields, answer["sequence"]))
            return answer

        self._pending.append(self._stage.loop.submit(run()))


def _require(who: str, shown: Answer, fresh: list[Answer], pins: list[int]) -> None:
    different = [pair for pair in zip(shown["timeline"], fresh, strict=False) if pair[0] != pair[1]]
    assert not different, f"{who} shows another entry: {different[0]}"
    assert len(shown["timeline"]) == len(fresh), who
    deleted = {entry["sequence"] for entry in fresh if "deleted_at" in entry}
    assert [sequence for sequence in shown["pins"] if sequence not in deleted] == pins, who
    assert shown["skipped"] == 0, who


def test_every_client_shows_what_the_server_shows(fragile: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parley_client.client, "ChatLog", RecordingLog)
    with Stage(fragile) as stage:
        LogMachine._stage, LogMachine._examples = stage, itertools.count(1)
        run_state_machine_as_test(seed(SEED)(LogMachine), settings=BUDGET)
        for web in fragile.webs:
            web.wait_until_ready()
    named = [argument for chat_id in stage.chats for argument in ("--chat", chat_id)]
    audit = subprocess.run(
        [sys.executable, "manage.py", "audit", "--json", *named],
        cwd=PROJECT_ROOT, env=fragile.environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert audit.returncode == 0, audit.stdout + audit.stderr
    assert json.loads(audit.stdout)["checked"] == len(stage.chats)
    assert stage.kinds.keys() == {"message", "edit", "deletion", "reaction", "pin", "notice"}
