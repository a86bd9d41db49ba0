"""People, chats and messages by the services, on real engines; and what a crash or a bug would leave behind."""

import itertools
import uuid
from collections.abc import Coroutine
from datetime import timedelta
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
from foundation.kernel.clock import SystemClock, to_iso
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.ids import ChatId, IdFactory, MessageId, UserId
from foundation.stores.dynamodb import Database
from foundation.stores.dynamodb.requests import raw_key
from foundation.stores.kafka import EventLogAdmin, EventProducer, KafkaOptions
from foundation.stores.redis.control import RevocationChannel
from messaging.domain import Draft, Message, entry_persisted
from messaging.services.notices import CommandLog
from messaging.stores.messages import ChatCreationKeys
from staff.parts import Engines, assemble_recovery
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
        self.chats = chats.parts.assemble(
            database,
            users=UserDirectory(self._users),
            creation_keys=ChatCreationKeys(database),
            log=CommandLog(self._healthy.committer, loop=database.loop),
            producer=producer,
            cursors=CursorCodec("secret"),
            clock=self.clock,
            ids=self.ids,
        )
        # Commits, and dies before it publishes.
        self._crashing = Services(database, self.clock)
        self.recovery = assemble_recovery(
            Engines(
                database=database,
                producer=producer,
                event_log=EventLogAdmin(kafka),
                kafka=kafka,
                redis=redis,
                notices=RevocationChannel(get_channel_layer()),
            ),
            clock=self.clock,
            ids=self.ids,
            grace=timedelta(0),
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

    def direct(self, one: UserId, other: UserId) -> ChatId:
        draft = ChatDraft(type=ChatType.DIRECT, name=None, member_ids=(other,))
        return self.chats.creation.create(one, draft).state.chat.chat_id

    def group(self, owner: UserId, *others: UserId) -> ChatId:
        draft = ChatDraft(type=ChatType.GROUP, name="Group", member_ids=others)
        return self.chats.creation.create(owner, draft).state.chat.chat_id

    def send(self, chat_id: ChatId, sender: UserId, *, crash: bool = False) -> Message:
        """Send a message; with `crash`, its event is never published."""
        return self.submit(Draft(chat_id, sender, str(uuid.uuid4()), "hello"), crash=crash)

    def submit(self, draft: Draft, *, crash: bool = False) -> Message:
        """Send an entry of any kind."""
        return (self._crashing if crash else self._healthy).send(draft).message

    # What damages it

    def publish(self, *messages: Message) -> None:
        """Publish events as they are given, whatever DynamoDB holds."""
        self.producer.publish_and_wait(
            [entry_persisted(each, event_id=self.ids.event(), now=self.clock.now()) for each in messages]
        )

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


def _raw(value: str | int) -> dict[str, str]:
    return {"N": str(value)} if isinstance(value, int) else {"S": value}
