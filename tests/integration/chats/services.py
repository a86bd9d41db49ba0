"""Chats and the inbox on a real database, called over HTTP, with test doubles for the rest."""

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any, Self

import orjson
from django.test import override_settings

import chats.api.urls
import delivery.api.urls
import messaging.api.urls
from accounts.domain import PublicUser, User
from accounts.services.directory import UserDirectory
from accounts.stores.users import UserStore
from chats.domain import MAX_MEMBERS
from chats.services.access import Access
from chats.services.changes import Changes
from chats.services.creation import ChatCreation, CreationStores
from chats.services.details import ChatDetails
from chats.services.event_publisher import EventPublisher
from chats.services.listing import ChatListing
from chats.services.members import Members
from chats.services.posting import Posting
from chats.stores.chats import ChatStore
from chats.stores.counters import CounterStore
from chats.stores.memberships import MembershipStore
from delivery.services.inbox import Inbox
from delivery.services.presence import Presence
from delivery.services.privacy import PrivacySettings
from delivery.services.receipts import ChatReceipts
from delivery.services.watermarks import Watermarks
from delivery.stores.presence import PresenceStore
from delivery.stores.watermarks import WatermarkStore
from foundation.kernel.clock import Clock
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.events import Event
from foundation.kernel.ids import ChatId, IdFactory, UserId
from foundation.kernel.loops import ServiceLoop
from foundation.rest.throttling import UserLimits
from foundation.stores.dynamodb import Database
from foundation.stores.kafka import EventProducer, OnDelivered, Outgoing
from messaging.domain import Message
from messaging.services.annotations import Annotations
from messaging.services.batch_reader import BatchReader
from messaging.services.committer import Committer
from messaging.services.history import History
from messaging.services.ingest import Ingest, IngestStores
from messaging.services.notices import CommandLog
from messaging.stores.messages import ChatCreationKeys, IdempotencyKeyStore, MessageStore
from tests.doubles import verify_user_id
from tests.rest import RestClient


class RecordingProducer(EventProducer):
    """Records events instead of publishing them."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def publish(self, batch: Sequence[Outgoing], *, on_delivered: OnDelivered, timeout: float | None = None) -> None:
        self.publish_and_wait(batch)
        on_delivered(range(len(batch)), None)

    def publish_and_wait(self, batch: Sequence[Outgoing], *, timeout: float | None = None) -> None:
        self.events += [outgoing.event for outgoing in batch]


class NotingLog(CommandLog):
    """Remembers which chats are about to be created."""

    def __init__(self, committer: Committer, *, loop: ServiceLoop, noted: list[ChatId]) -> None:
        super().__init__(committer, loop=loop)
        self._noted = noted

    def note(self, chat_id: ChatId) -> None:
        self._noted.append(chat_id)


class OnlineUsers(PresenceStore):
    """Who is online, without Redis."""

    def __init__(self) -> None:
        self.user_ids: set[UserId] = set()

    async def online_among(self, user_ids: Sequence[UserId]) -> set[UserId]:
        return self.user_ids & set(user_ids)

    async def leave(self, user_ids: Collection[UserId]) -> set[UserId]:
        gone = self.user_ids & set(user_ids)
        self.user_ids -= gone
        return gone


class Services:
    """The services under test, wired as in `config.wiring`, and their users."""

    def __init__(
        self, database: Database, producer: EventProducer, clock: Clock, *, member_limit: int = MAX_MEMBERS
    ) -> None:
        self.database, self.clock, self.ids = database, clock, IdFactory(clock)
        self.chats, self.memberships = ChatStore(database), MembershipStore(database)
        self.counters, self.watermarks = CounterStore(database), WatermarkStore(database.on_loop)
        self.user_store = UserStore(database)
        self.users = UserDirectory(self.user_store)
        self.access = Access(chats=self.chats, memberships=self.memberships)
        self.events = EventPublisher(producer=producer, ids=self.ids, clock=clock)
        self.posting = Posting(database=database, memberships=self.memberships, counters=self.counters)
        cursors = CursorCodec("a secret of the tests")
        messages = MessageStore(database.on_loop)
        self.history = History(database=database.on_loop, messages=messages, posting=self.posting)
        stores = IngestStores(
            database=database.on_loop,
            posting=self.posting,
            changes=Changes(database, limit=member_limit),
            messages=messages,
            keys=IdempotencyKeyStore(database),
        )
        ingest = Ingest(stores, clock=clock)
        reader = BatchReader(stores, ingest, clock=clock)
        self.entries = RecordingProducer()
        self.committer = Committer(ingest=ingest, reader=reader, producer=self.entries, clock=clock, ids=self.ids)
        self.annotations = Annotations(
            database=database.on_loop,
            history=self.history,
            messages=messages,
            posting=self.posting,
            cursors=cursors,
        )
        self.noted: list[ChatId] = []
        log = NotingLog(self.committer, loop=database.loop, noted=self.noted)
        self.creation = self._creation(log)
        self.details = ChatDetails(
            access=self.access, memberships=self.memberships, counters=self.counters, log=log, clock=clock
        )
        self.members = Members(
            access=self.access,
            memberships=self.memberships,
            log=log,
            users=self.users,
            events=self.events,
            cursors=cursors,
        )
        self.acknowledgements = Watermarks(
            database=database.on_loop, store=self.watermarks, posting=self.posting, cursors=cursors, clock=clock
        )
        self.privacy = PrivacySettings(self.users)
        self.receipts = ChatReceipts(database, members=self.members, store=self.watermarks, users=self.users)
        self.online = OnlineUsers()
        self.presence = Presence(
            self.online,
            database=database.on_loop,
            posting=self.posting,
            users=self.users,
            privacy=self.privacy,
            clock=clock,
        )
        self.inbox = Inbox(
            database=database.on_loop,
            chats=ChatListing(chats=self.chats, memberships=self.memberships, counters=self.counters),
            history=self.history,
            watermarks=self.watermarks,
            cursors=cursors,
        )

    def _creation(self, log: CommandLog) -> ChatCreation:
        stores = CreationStores(
            database=self.database,
            chats=self.chats,
            memberships=self.memberships,
            counters=self.counters,
            keys=ChatCreationKeys(self.database),
        )
        return ChatCreation(
            stores=stores,
            access=self.access,
            users=self.users,
            log=log,
            events=self.events,
            clock=self.clock,
            ids=self.ids,
        )

    def urlconf(self, limits: UserLimits | None = None) -> ModuleType:
        callers: Any = {"verify": verify_user_id, "limits": limits}
        module = ModuleType("urls_of_the_services")
        module.urlpatterns = [  # type: ignore[attr-defined]
            *chats.api.urls.routes(details=self.details, members=self.members, **callers),
            *messaging.api.urls.routes(
                committer=self.committer, history=self.history, annotations=self.annotations, **callers
            ),
            *delivery.api.urls.routes(
                inbox=self.inbox,
                creation=self.creation,
                watermarks=self.acknowledgements,
                receipts=self.receipts,
                presence=self.presence,
                **callers,
            ),
        ]
        module.handler404 = "foundation.rest.problems.not_found"  # type: ignore[attr-defined]
        return module

    @contextmanager
    def serving(self) -> Iterator[Self]:
        """Serve the routes to `Person`, and close the services at the end."""
        with override_settings(ROOT_URLCONF=self.urlconf()):
            yield self
        self.database.loop.run(self.committer.close())
        self.database.loop.run(self.history.close())

    def user(self, name: str = "Somebody") -> "Person":
        user_id, now = self.ids.user(), self.clock.now()
        number = f"+4915{int.from_bytes(user_id[-6:].encode()) % 10**9:09d}"
        self.user_store.create(User(user_id, number, True, name, now, now))
        return Person(user_id)

    def say(self, chat_id: ChatId, sender_id: UserId, content: str) -> None:
        """Store a message as the ingest path would."""
        found = self.database.batch_get(self.posting.counter_lookup([chat_id]))
        current = self.posting.counter_states_among(found)[chat_id]
        message = Message(
            self.ids.message(),
            chat_id,
            current.sequence + 1,
            sender_id,
            "c",
            content,
            "text/plain",
            "2035-01-30T14:30:00.000Z",
        )
        after = replace(current, sequence=current.sequence + 1)
        moving = self.posting.moving_counter(chat_id, current=current, after=after, now=self.clock.now())
        self.database.transact([moving, MessageStore(self.database.on_loop).storing(message)])

    def count_members(self, chat_id: ChatId) -> int:
        return self.database.loop.run(self.memberships.count_members(chat_id))

    def role_of(self, chat_id: ChatId, person: "Person") -> str | None:
        found = self.memberships.find(chat_id, person.user_id)
        return None if found is None else str(found.role)


class Answer:
    """An HTTP response."""

    def __init__(self, response: Any) -> None:
        self.status, self.headers = response.status_code, response.headers
        self.body: Any = orjson.loads(response.content) if response.content else None

    @property
    def code(self) -> str | None:
        """The error code, or None."""
        return None if self.status < 400 else str(self.body["code"])


class Person:
    """A user with a client."""

    def __init__(self, user_id: UserId) -> None:
        self.user_id = user_id

    def get(self, path: str, **query: Any) -> Answer:
        return self.call("GET", path, query=query)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.call("POST", path, body, headers=headers)

    def put(self, path: str, body: Any) -> Answer:
        return self.call("PUT", path, body)

    def patch(self, path: str, body: Any) -> Answer:
        return self.call("PATCH", path, body)

    def delete(self, path: str) -> Answer:
        return self.call("DELETE", path)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        response = RestClient().generic(
            method,
            path,
            "" if body is None else orjson.dumps(body).decode(),
            content_type="application/json",
            query_params=query,
            headers={"Authorization": f"Bearer {self.user_id}", **(headers or {})},
        )
        return Answer(response)

    def create_group(self, *others: "Person", name: str = "Team", **headers: str) -> Answer:
        members = [other.user_id for other in others]
        return self.post("/api/chats", {"type": "group", "name": name, "members": members}, **headers)

    def create_direct(self, other: "Person") -> Answer:
        return self.post("/api/chats", {"type": "direct", "members": [other.user_id]})

    def add(self, chat_id: str, other: "Person", **role: str) -> Answer:
        body = {"user_id": other.user_id, "action": "add", **role}
        return self.post(f"/api/chats/{chat_id}/members", body)

    def give_role(self, chat_id: str, other: "Person", role: str) -> Answer:
        return self.patch(f"/api/chats/{chat_id}/members/{other.user_id}", {"role": role})

    def remove(self, chat_id: str, other: "Person") -> Answer:
        return self.delete(f"/api/chats/{chat_id}/members/{other.user_id}")


def crowd(services: Services, size: int) -> list[Person]:
    """Users that only the directory knows, which is cheaper than registering each."""
    people = [Person(services.ids.user()) for _ in range(size)]
    known = {person.user_id: PublicUser(person.user_id, "One of many") for person in people}
    find = services.users.find_public_users

    def find_public_users(user_ids: Iterable[UserId]) -> dict[UserId, PublicUser]:
        wanted = list(user_ids)
        return {user_id: known[user_id] for user_id in wanted if user_id in known} | find(
            user_id for user_id in wanted if user_id not in known
        )

    services.users.find_public_users = find_public_users  # type: ignore[method-assign]
    return people


@contextmanager
def just_before(database: Database, awaited: str, change: Callable[[], object]) -> Iterator[None]:
    """Run `change` once in a thread, just before the first `awaited` operation is sent."""
    wire, pending = database.on_loop.wire, [change]
    send = wire.call

    async def call(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == awaited and pending:
            await asyncio.to_thread(pending.pop())
        return await send(operation, request)

    wire.call = call  # type: ignore[method-assign]
    try:
        yield
    finally:
        wire.call = send  # type: ignore[method-assign]
    assert not pending, f"no {awaited} was sent"


@contextmanager
def captured(database: Database) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Record all requests to DynamoDB."""
    wire, requests = database.on_loop.wire, list[tuple[str, dict[str, Any]]]()
    send = wire.call

    async def call(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        requests.append((operation, request))
        return await send(operation, request)

    wire.call = call  # type: ignore[method-assign]
    try:
        yield requests
    finally:
        wire.call = send  # type: ignore[method-assign]


def all_at_once(actions: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """Run the actions concurrently and return their responses in order."""
    barrier, answers = threading.Barrier(len(actions)), dict[int, Answer]()

    def run(place: int) -> None:
        barrier.wait(10)
        answers[place] = actions[place]()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [answers[place] for place in range(len(actions))]
