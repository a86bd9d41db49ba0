"""The ingest path and history on a real database, with the store's requests recorded and a fake for Kafka."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from time import monotonic
from types import ModuleType
from typing import Any, TypeVar

import orjson

from chats.domain import Chat, ChatType, CounterState, Membership, Role
from chats.services.changes import Changes
from chats.services.posting import Posting
from chats.stores.chats import ChatStore
from chats.stores.counters import CounterStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.clock import Clock
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.events import Event
from foundation.kernel.ids import ChatId, IdFactory, UserId
from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb import Database
from foundation.stores.errors import CancellationReason, EventLogUnavailable, TransactionCancelled
from foundation.stores.kafka import EventProducer, OnDelivered, Outgoing
from messaging.api.urls import routes
from messaging.domain import Draft, Message, Sent
from messaging.services.annotations import Annotations
from messaging.services.batch_reader import BatchReader
from messaging.services.committer import MAX_WAITING, Committer
from messaging.services.history import History, Page, Window
from messaging.services.homes import Homes
from messaging.services.ingest import Ingest, IngestStores
from messaging.stores.messages import IdempotencyKeyStore, MessageStore
from tests.doubles import verify_user_id
from tests.rest import RestClient

T = TypeVar("T")

QUICK = RetryPolicy(attempts=8, first_pause=0.001, longest_pause=0.02)

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
Intercept = Callable[[str, dict[str, Any], Call], Awaitable[dict[str, Any]]]


class FakeProducer(EventProducer):
    """Takes events at once, or refuses them while it is `unavailable`."""

    def __init__(self) -> None:
        self.outgoing: list[Outgoing] = []
        self.unavailable = False
        self.on_publish: Callable[[], object] = lambda: None

    @property
    def events(self) -> list[Event]:
        return [outgoing.event for outgoing in self.outgoing]

    def publish(self, batch: Sequence[Outgoing], *, on_delivered: OnDelivered, timeout: float | None = None) -> None:
        self.on_publish()
        error = EventLogUnavailable("Kafka did not take the event in time") if self.unavailable else None
        self.outgoing += [] if error else batch
        on_delivered(range(len(batch)), error)


class WireTap:
    """Records every request of a database, and lets a test intercept them. Interceptors run on the database's loop."""

    def __init__(self, database: Database) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.intercept: Intercept | None = None
        self._loop = database.loop
        self._wire = database.on_loop.wire
        self._send = self._wire.call
        self._wire.call = self._call  # type: ignore[method-assign]

    def detach(self) -> None:
        self._wire.call = self._send  # type: ignore[method-assign]

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.requests]

    async def _call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append((operation, request))
        if self.intercept is not None:
            return await self.intercept(operation, request, self._send)
        return await self._send(operation, request)

    @contextmanager
    def held(self, operation: str) -> Iterator[threading.Event]:
        """Hold requests of one kind back until the block ends; the event is set when the first one arrives."""
        arrived, released = threading.Event(), asyncio.Event()

        async def hold(name: str, request: dict[str, Any], send: Call) -> dict[str, Any]:
            if name == operation:
                arrived.set()
                async with asyncio.timeout(20):
                    await released.wait()
            return await send(name, request)

        self.intercept = hold
        try:
            yield arrived
        finally:
            self.intercept = None
            self._loop.call_soon(released.set)

    def fail(self, operation: str, errors: Sequence[Exception], *, after_sending: bool = False) -> None:
        """Let the next requests of a kind fail, one for each error; `after_sending` loses the answer only."""
        left = list(errors)

        async def fail(name: str, request: dict[str, Any], send: Call) -> dict[str, Any]:
            if name != operation or not left:
                return await send(name, request)
            error = left.pop(0)
            if after_sending:
                await send(name, request)
            raise error

        self.intercept = fail


def cancelled(*codes: str | None) -> TransactionCancelled:
    return TransactionCancelled([None if code is None else CancellationReason(code) for code in codes])


class Services:
    """One process's ingest path and history. Chats and members are put straight into the tables."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        producer: EventProducer | None = None,
        max_waiting: int = MAX_WAITING,
        contention_retry: RetryPolicy = QUICK,
        homes: Homes | None = None,
    ) -> None:
        self.database, self.loop = database, database.loop
        self.clock, self.ids = clock, IdFactory(clock)
        self.wire = WireTap(database)
        self.fake_producer = FakeProducer()
        self.memberships, self.counters = MembershipStore(database), CounterStore(database)
        self.posting = Posting(database=database, memberships=self.memberships, counters=self.counters)
        self.messages = MessageStore(database.on_loop)
        self.homes = homes or Homes()
        stores = IngestStores(
            database=database.on_loop,
            posting=self.posting,
            changes=Changes(database),
            messages=self.messages,
            keys=IdempotencyKeyStore(database),
        )
        self.ingest = Ingest(stores, clock=clock, homes=self.homes, monotonic=lambda: clock.now().timestamp())
        self.committer = Committer(
            ingest=self.ingest,
            reader=BatchReader(stores, self.ingest, clock=clock),
            producer=producer or self.fake_producer,
            clock=clock,
            ids=self.ids,
            retry=QUICK,
            contention_retry=contention_retry,
            max_waiting=max_waiting,
        )
        self.homes.subscribe(self.committer.on_homes_changed)
        self.history = History(database=database.on_loop, messages=self.messages, posting=self.posting)
        self.annotations = Annotations(
            database=database.on_loop,
            history=self.history,
            messages=self.messages,
            posting=self.posting,
            cursors=CursorCodec("a secret of the tests"),
        )

    def create_chat(self, *members: UserId) -> ChatId:
        chat_id, now = self.ids.chat(), self.clock.now()
        self.database.transact(
            [
                self.counters.creating(chat_id, members=len(members), now=now),
                *(self.memberships.creating(Membership(chat_id, each, Role.MEMBER, now, None)) for each in members),
            ]
        )
        self.wire.requests.clear()
        return chat_id

    def create_room(self, type: ChatType, **roles: Role) -> tuple[ChatId, dict[str, UserId]]:
        """A chat with its item, and a member for each of the names."""
        chat_id, now = self.ids.chat(), self.clock.now()
        members = {name: self.ids.user() for name in roles}
        name = "Team" if type is ChatType.GROUP else None
        self.database.transact(
            [
                ChatStore(self.database).creating(Chat(chat_id, type, name, self.ids.user(), now, now)),
                self.counters.creating(chat_id, members=len(members), now=now),
                *(
                    self.memberships.creating(Membership(chat_id, members[name], role, now))
                    for name, role in roles.items()
                ),
            ]
        )
        self.wire.requests.clear()
        return chat_id, members

    def counter(self, chat_id: ChatId) -> CounterState:
        found = self.database.batch_get(self.posting.counter_lookup([chat_id]))
        return self.posting.counter_states_among(found)[chat_id]

    def remove(self, chat_id: ChatId, user_id: UserId) -> None:
        """As a process of an earlier version does it: without a notice."""
        seen = self.memberships.find(chat_id, user_id)
        assert seen is not None
        self.database.transact([self.memberships.removing(seen), self.counters.counting_departure(chat_id)])

    def add(self, chat_id: ChatId, user_id: UserId) -> None:
        self.database.transact([self.memberships.adding(Membership(chat_id, user_id, Role.MEMBER, self.clock.now()))])

    def draft(self, chat_id: ChatId, sender: UserId, client_message_id: str = "id-1", content: str = "hello") -> Draft:
        return Draft(chat_id, sender, client_message_id, content)

    def list_homes(self, own: str, *others: str) -> None:
        """Let this process believe in a list of homes, which stays valid."""

        async def update() -> None:
            self.homes.update(own, [own, *others], at=monotonic() + 1000)

        self.run(update())

    def send(self, draft: Draft) -> Sent:
        return self.run(self.committer.send(draft))

    def submit(self, draft: Draft) -> Future[Sent]:
        """Submit a draft on the loop. Raises what `Committer.submit` raises."""
        return self._start(lambda: self.committer.submit(draft))

    def get_message(self, chat_id: ChatId, user_id: UserId, sequence: int) -> Message:
        return self.run(self.history.get_message(chat_id, user_id, sequence))

    def page(self, chat_id: ChatId, user_id: UserId, window: Window) -> Page:
        return self.run(self.history.page(chat_id, user_id, window))

    def sequences(self, chat_id: ChatId, user_id: UserId, **window: int) -> list[int]:
        return [message.sequence for message in self.page(chat_id, user_id, Window(**window)).messages]

    def ask(self, chat_id: ChatId, user_id: UserId, window: Window) -> Future[Page]:
        return self._start(lambda: self.history.ask(chat_id, user_id, window))

    def stored(self, chat_id: ChatId, *, newest_first: bool = False) -> list[Message]:
        """What the table holds of a chat, read around every service."""
        return self.run(self.messages.list_between(chat_id, 1, 1_000_000, newest_first=newest_first))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(coroutine)

    def _start(self, begin: Callable[[], "asyncio.Future[T]"]) -> Future[T]:
        """Call a function on the loop, and return its future as one that this thread can wait for."""
        answer: Future[T] = Future()

        def copy(done: "asyncio.Future[T]") -> None:
            error = done.exception()
            if error is None:
                answer.set_result(done.result())
            else:
                answer.set_exception(error)

        async def start() -> None:
            begin().add_done_callback(copy)

        self.run(start())
        return answer

    def urlconf(self) -> ModuleType:
        module = ModuleType("messaging_urls")
        module.loop = self.loop  # type: ignore[attr-defined]
        module.urlpatterns = routes(  # type: ignore[attr-defined]
            committer=self.committer, history=self.history, annotations=self.annotations, verify=verify_user_id
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
        self.run(self.committer.close())
        self.run(self.history.close())
        self.wire.detach()


class Caller:
    """A user with a REST client."""

    def __init__(self, user_id: UserId) -> None:
        self._client = RestClient(headers={"authorization": f"Bearer {user_id}"})

    def get(self, path: str, **query: str | int) -> tuple[int, dict[str, Any]]:
        response = self._client.get(path, query)
        return response.status_code, orjson.loads(response.content)

    def post(self, path: str, body: object) -> tuple[int, dict[str, Any]]:
        return self._send("post", path, body)

    def patch(self, path: str, body: object) -> tuple[int, dict[str, Any]]:
        return self._send("patch", path, body)

    def put(self, path: str) -> tuple[int, dict[str, Any]]:
        return self._send("put", path)

    def delete(self, path: str, *, key: str | None = None) -> tuple[int, dict[str, Any]]:
        """`key` is sent as `Idempotency-Key`."""
        return self._send("delete", path, headers={} if key is None else {"idempotency-key": key})

    def _send(self, method: str, path: str, body: object = b"", **options: Any) -> tuple[int, dict[str, Any]]:
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        response = getattr(self._client, method)(path, data, content_type="application/json", **options)
        return response.status_code, orjson.loads(response.content)
