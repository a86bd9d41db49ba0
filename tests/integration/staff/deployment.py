"""People, chats and messages by the services, on real engines; and what a crash or a bug would leave behind."""

import itertools
import uuid
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from channels.layers import get_channel_layer
from pynamodb.models import Model
from redis import Redis

import accounts.stores.users
import chats.parts
from accounts.domain import User
from accounts.services.directory import UserDirectory
from accounts.services.registration import Registration
from chats.domain import ChatDraft, ChatType
from chats.parts import Chats
from foundation.kernel.clock import Clock, SystemClock, to_iso
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.events import Event
from foundation.kernel.ids import ChatId, IdFactory, MessageId, UserId
from foundation.stores.dynamodb import Database
from foundation.stores.dynamodb.requests import raw_key
from foundation.stores.kafka import EventLogAdmin, EventProducer, KafkaOptions, LogReader, Outgoing, Record
from foundation.stores.redis.control import ControlChannel
from messaging.domain import Draft, Message, entry_persisted
from messaging.services.notices import CommandLog
from messaging.stores.messages import ChatCreationKeys
from staff.parts import Engines, Recovery, assemble_recovery
from tests.integration.messaging.services import Services

T = TypeVar("T")

_numbers = itertools.count(15112345678)


class Deployment:
    """`recovery` is what the commands use, without the ten seconds for which an entry may lack its event."""

    def __init__(self, database: Database, producer: EventProducer, kafka: KafkaOptions, redis: Redis) -> None:
        self.database, self.producer = database, producer
        self.clock = SystemClock()
        self.ids = IdFactory(self.clock)
        self._users = accounts.stores.users.UserStore(database)
        self._healthy = Services(database, self.clock, producer=producer)
        # Commits, and dies before it publishes.
        self._crashing = Services(database, self.clock)
        self.chats = self._assemble_chats(self._healthy, producer)
        self.crashing_chats = self._assemble_chats(self._crashing, self._crashing.fake_producer)
        """Chats whose events, and the notices of whose changes, are never published."""
        self.half_crashing_chats = self._assemble_chats(self._healthy, self._crashing.fake_producer)
        """Chats that publish the notices of their changes, and die before the events of these."""
        self._engines = Engines(
            database=database,
            producer=producer,
            event_log=EventLogAdmin(kafka),
            kafka=kafka,
            redis=redis,
            notices=ControlChannel(get_channel_layer()),
            probes={},
        )
        self.recovery = self.recovery_at(self.clock, grace=timedelta(0))

    def recovery_at(self, clock: Clock, *, grace: timedelta) -> Recovery:
        """What the commands use, at another time than that of the deployment."""
        return assemble_recovery(self._engines, clock=clock, ids=self.ids, grace=grace)

    def _assemble_chats(self, services: Services, producer: EventProducer) -> Chats:
        return chats.parts.assemble(
            self.database,
            users=UserDirectory(self._users),
            creation_keys=ChatCreationKeys(self.database),
            log=CommandLog(services.committer, loop=self.database.loop),
            producer=producer,
            cursors=CursorCodec("secret"),
            clock=self.clock,
            ids=self.ids,
        )

    def close(self) -> None:
        self._crashing.close()
        self._healthy.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.database.loop.run(coroutine)

    # What the services do

    def person(self) -> User:
        registration = Registration(self._users, ids=self.ids, clock=self.clock)
        return registration.find_or_create(f"+49{next(_numbers)}", display_name="Ann")[0]

    def direct(self, one: UserId, other: UserId, *, crash: bool = False) -> ChatId:
        """Create a direct chat; with `crash`, its event is never published."""
        return self._create(one, ChatDraft(type=ChatType.DIRECT, name=None, member_ids=(other,)), crash=crash)

    def group(self, owner: UserId, *others: UserId, crash: bool = False) -> ChatId:
        return self._create(owner, ChatDraft(type=ChatType.GROUP, name="Group", member_ids=others), crash=crash)

    def _create(self, creator: UserId, draft: ChatDraft, *, crash: bool) -> ChatId:
        creation = (self.crashing_chats if crash else self.chats).creation
        return creation.create(creator, draft).state.chat.chat_id

    def send(self, chat_id: ChatId, sender: UserId, *, crash: bool = False) -> Message:
        """Send a message; with `crash`, its event is never published."""
        return self.submit(Draft(chat_id, sender, str(uuid.uuid4()), "hello"), crash=crash)

    def submit(self, draft: Draft, *, crash: bool = False) -> Message:
        """Send an entry of any kind."""
        return (self._crashing if crash else self._healthy).send(draft).message

    # What damages it

    def publish(self, *messages: Message) -> None:
        """Publish the events of these messages, whatever DynamoDB holds."""
        self.producer.publish_and_wait(
            [entry_persisted(each, event_id=self.ids.event(), now=self.clock.now()) for each in messages]
        )

    def publish_event(self, event_type: str, chat_id: ChatId, **payload: Any) -> None:
        """Publish an event as it is given, whatever DynamoDB holds."""
        event = Event(event_type, self.ids.event(), self.clock.now(), chat_id, {"chat_id": chat_id, **payload})
        self.producer.publish_and_wait([Outgoing(event)])

    def invented(self, chat_id: ChatId, sender: UserId, sequence: int) -> Message:
        """A message that was never stored."""
        return Message(
            message_id=MessageId(self.ids.message()),
            chat_id=chat_id,
            sequence=sequence,
            sender_id=sender,
            client_message_id="never",
            content="never stored",
            content_type="text/plain",
            created_at=to_iso(self.clock.now()),
        )

    def put(self, table: type[Model], item: dict[str, Any]) -> None:
        """Write an item past every service."""
        raw = {name: _raw(value) for name, value in item.items()}
        self.database.call("PutItem", {"TableName": self.database.table_name(table), "Item": raw})

    def change(self, table: type[Model], key: tuple[str | int, ...], **attributes: str | int | None) -> None:
        """Set attributes of an item, or remove those that are None."""
        raw = {name: _raw(value) for name, value in attributes.items() if value is not None}
        removed = [f"#{name}" for name, value in attributes.items() if value is None]
        changes = [f"SET {', '.join(f'#{name} = :{name}' for name in raw)}"] if raw else []
        changes += [f"REMOVE {', '.join(removed)}"] if removed else []
        request: dict[str, Any] = {
            "TableName": self.database.table_name(table),
            "Key": raw_key(table, key),
            "UpdateExpression": " ".join(changes),
            "ExpressionAttributeNames": {f"#{name}": name for name in attributes},
        }
        if raw:
            request["ExpressionAttributeValues"] = {f":{name}": value for name, value in raw.items()}
        self.database.call("UpdateItem", request)

    def drop(self, table: type[Model], *key: str | int) -> None:
        """Delete an item past every service."""
        self.database.call("DeleteItem", {"TableName": self.database.table_name(table), "Key": raw_key(table, key)})


def published(topic: str, chat_id: ChatId, options: KafkaOptions) -> list[Record]:
    """What Kafka has of a chat, in the order of the log."""
    reader = LogReader(options)
    span = reader.span(topic, datetime.now(UTC) - timedelta(hours=1))
    records = [record for batch in reader.read(span) for record in batch if record.key == chat_id]
    reader.close()
    return records


def _raw(value: str | int) -> dict[str, str]:
    return {"N": str(value)} if isinstance(value, int) else {"S": value}
