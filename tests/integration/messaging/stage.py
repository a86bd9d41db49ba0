"""The ingest path and history on a real database, with the store's requests in view and Kafka's part played."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import orjson
from django.test import Client

from chats.domain import Membership, Role
from chats.services.leaving import Leaving
from chats.services.posting import Posting
from chats.stores.counters import CounterStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.clock import Clock
from foundation.kernel.events import Event
from foundation.kernel.ids import ChatId, IdFactory, UserId
from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb import Database
from foundation.stores.errors import CancellationReason, EventLogUnavailable, TransactionCancelled
from foundation.stores.kafka import Outgoing, Told
from foundation.stores.kafka.announcer import Announcer
from messaging.api.urls import routes
from messaging.domain import Draft, Message
from messaging.services.committer import Committer
from messaging.services.history import History, Window
from messaging.services.ingest import Ingest
from messaging.stores.idempotency import IdempotencyKeyStore
from messaging.stores.messages import MessageStore
from tests.doubles import verify_user_id

QUICK = RetryPolicy(attempts=8, first_pause=0.001, longest_pause=0.02)

Dispatch = Callable[[str, dict[str, Any]], dict[str, Any]]


class PlayedAnnouncer(Announcer):
    """Takes events at once, or not at all while `away`."""

    def __init__(self) -> None:
        self.outgoing: list[Outgoing] = []
        self.away = False
        self.on_hand_over: Callable[[], object] = lambda: None

    @property
    def events(self) -> list[Event]:
        return [outgoing.event for outgoing in self.outgoing]

    def hand_over(self, batch: Sequence[Outgoing], told: Told, *, timeout: float | None = None) -> None:
        self.on_hand_over()
        is_away = self.away
        self.outgoing += [] if is_away else batch
        told(range(len(batch)), EventLogUnavailable("Kafka did not take the event in time") if is_away else None)


class Wire:
    """Stands between a database and its engine: writes down every request, and lets a test interfere."""

    def __init__(self, database: Database) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.interfere: Callable[[str, dict[str, Any], Dispatch], dict[str, Any]] | None = None
        self._connection = database.connection
        self._pass_on: Dispatch = database.connection.dispatch
        database.connection.dispatch = self._dispatch  # type: ignore[method-assign, assignment]

    def detach(self) -> None:
        self._connection.dispatch = self._pass_on  # type: ignore[method-assign, assignment]

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.requests]

    def _dispatch(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append((operation, request))
        if self.interfere is not None:
            return self.interfere(operation, request, self._pass_on)
        return self._pass_on(operation, request)

    @contextmanager
    def held(self, operation: str) -> Iterator[threading.Event]:
        """Hold requests of one kind back until the block ends; the event tells that one has arrived."""
        arrived, let_go = threading.Event(), threading.Event()

        def hold(name: str, request: dict[str, Any], pass_on: Dispatch) -> dict[str, Any]:
            if name == operation:
                arrived.set()
                assert let_go.wait(20)
            return pass_on(name, request)

        self.interfere = hold
        try:
            yield arrived
        finally:
            self.interfere = None
            let_go.set()

    def fail(self, operation: str, errors: Sequence[Exception], *, after_sending: bool = False) -> None:
        """Let the next requests of a kind fail, one for each error; `after_sending` loses the answer only."""
        left = list(errors)

        def interfere(name: str, request: dict[str, Any], pass_on: Dispatch) -> dict[str, Any]:
            if name != operation or not left:
                return pass_on(name, request)
            error = left.pop(0)
            if after_sending:
                pass_on(name, request)
            raise error

        self.interfere = interfere


def cancelled(*codes: str | None) -> TransactionCancelled:
    return TransactionCancelled([None if code is None else CancellationReason(code) for code in codes])


class Stage:
    """One process's ingest path and history. Chats and members are put straight into the tables."""

    def __init__(
        self, database: Database, clock: Clock, *, announcer: Announcer | None = None, max_waiting: int = 1000
    ) -> None:
        self.database, self.clock, self.ids = database, clock, IdFactory(clock)
        self.wire = Wire(database)
        self.played = PlayedAnnouncer()
        self.memberships, self.counters = MembershipStore(database), CounterStore(database)
        self.posting = Posting(database=database, memberships=self.memberships, counters=self.counters)
        self.messages = MessageStore(database)
        self.ingest = Ingest(
            database=database,
            posting=self.posting,
            messages=self.messages,
            keys=IdempotencyKeyStore(database),
            clock=clock,
            monotonic=lambda: clock.now().timestamp(),
        )
        self.committer = Committer(
            ingest=self.ingest,
            announcer=announcer or self.played,
            clock=clock,
            ids=self.ids,
            retry=QUICK,
            max_waiting=max_waiting,
        )
        self.history = History(database=database, messages=self.messages, posting=self.posting)

    def create_chat(self, *members: UserId) -> ChatId:
        chat_id, now = self.ids.chat(), self.clock.now()
        self.database.transact(
            [
                self.counters.creating(chat_id, now=now),
                *(self.memberships.creating(Membership(chat_id, each, Role.MEMBER, now, None)) for each in members),
            ]
        )
        self.wire.requests.clear()
        return chat_id

    def remove(self, chat_id: ChatId, user_id: UserId) -> None:
        seen = self.memberships.find(chat_id, user_id)
        assert seen is not None
        Leaving(database=self.database, memberships=self.memberships, counters=self.counters).leave(seen)

    def draft(self, chat_id: ChatId, sender: UserId, client_message_id: str = "id-1", content: str = "hello") -> Draft:
        return Draft(chat_id, sender, client_message_id, content)

    def stored(self, chat_id: ChatId) -> list[Message]:
        """What the table holds of a chat, read around every service."""
        return self.messages.list_between(chat_id, 1, 1_000_000)

    def page(self, chat_id: ChatId, user_id: UserId, **window: int) -> list[int]:
        return [message.sequence for message in self.history.page(chat_id, user_id, Window(**window)).messages]

    def urlconf(self) -> ModuleType:
        module = ModuleType("messaging_urls")
        module.urlpatterns = routes(  # type: ignore[attr-defined]
            committer=self.committer, history=self.history, verify=verify_user_id
        )
        for status, handler in (
            (400, "bad_request"),
            (403, "forbidden"),
            (404, "not_found"),
            (500, "server_error"),
        ):
            setattr(module, f"handler{status}", f"foundation.rest.problems.{handler}")
        return module

    def close(self) -> None:
        self.committer.close()
        self.history.close()
        self.wire.detach()


class Caller:
    """A user with a REST client."""

    def __init__(self, user_id: UserId) -> None:
        self._client = Client(headers={"authorization": f"Bearer {user_id}"}, raise_request_exception=False)

    def get(self, path: str, **query: str | int) -> tuple[int, dict[str, Any]]:
        response = self._client.get(path, query)
        return response.status_code, orjson.loads(response.content)

    def post(self, path: str, body: object) -> tuple[int, dict[str, Any]]:
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        response = self._client.post(path, data, content_type="application/json")
        return response.status_code, orjson.loads(response.content)
