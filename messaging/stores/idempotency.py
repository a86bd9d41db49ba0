"""The table `idempotency_keys`: what a client's id led to, so that a retry finds the first try.

A key past its TTL counts as absent, whether DynamoDB has deleted it yet or not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from foundation.kernel.clock import to_iso
from foundation.kernel.ids import ChatId, MessageId, UserId
from foundation.stores.dynamodb import AccessPattern, Consistency, Database, Key, Operation, Write
from foundation.stores.dynamodb.database import BatchResult
from messaging.domain import Message
from messaging.models import IdempotencyKeyModel

MESSAGE_KEY_SECONDS = 7 * 24 * 3600
CREATION_KEY_SECONDS = 24 * 3600
_ABSENT = "attribute_not_exists(chat_id) OR #ttl <= :now"

CHECK_DUPLICATE = AccessPattern(
    "Check duplicate",
    IdempotencyKeyModel,
    Operation.BATCH_GET,
    key="chat_id, client_message_id",
    consistency=Consistency.STRONG,
)
INSERT_KEY = AccessPattern(
    "Insert key",
    IdempotencyKeyModel,
    Operation.TRANSACT_PUT,
    key="chat_id, client_message_id",
    condition=_ABSENT,
)
FIND_CREATION = AccessPattern(
    "Find chat creation",
    IdempotencyKeyModel,
    Operation.GET,
    key='"request#<user_id>", Idempotency-Key',
    consistency=Consistency.STRONG,
)
REMEMBER_CREATION = AccessPattern(
    "Remember chat creation",
    IdempotencyKeyModel,
    Operation.TRANSACT_PUT,
    key='"request#<user_id>", Idempotency-Key',
    condition=_ABSENT,
)

KeyPlace = tuple[ChatId, str]


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a message key stands for."""

    message_id: MessageId
    sequence: int


class IdempotencyKeyStore:
    """Message keys by chat and client message id."""

    def __init__(self, database: Database) -> None:
        self._table = database.table_name(IdempotencyKeyModel)

    def lookup(self, places: Iterable[KeyPlace]) -> dict[AccessPattern[Any], list[Key]]:
        """The keys to read, for a caller that reads other tables in the same request."""
        return {CHECK_DUPLICATE: list(places)}

    def found_in(self, result: BatchResult, *, now: datetime) -> dict[KeyPlace, Remembered]:
        """The living keys of such a read."""
        second = int(now.timestamp())
        return {
            (ChatId(item["chat_id"]["S"]), item["client_message_id"]["S"]): Remembered(
                MessageId(item["message_id"]["S"]), int(item["sequence"]["N"])
            )
            for item in result.raw(CHECK_DUPLICATE).values()
            if int(item["ttl"]["N"]) > second
        }

    def remembering(self, message: Message, *, now: datetime) -> Write:
        """The key's part of the message's transaction; fails when the key is there and alive."""
        second = int(now.timestamp())
        item = {
            "chat_id": {"S": message.chat_id},
            "client_message_id": {"S": message.client_message_id},
            "message_id": {"S": message.message_id},
            "sequence": {"N": str(message.sequence)},
            "created_at": {"S": message.created_at},
            "ttl": {"N": str(second + MESSAGE_KEY_SECONDS)},
        }
        put = {
            "TableName": self._table,
            "Item": item,
            "ConditionExpression": _ABSENT,
            "ExpressionAttributeNames": {"#ttl": "ttl"},
            "ExpressionAttributeValues": {":now": {"N": str(second)}},
        }
        return Write(INSERT_KEY, {"Put": put})


class ChatCreationKeys:
    """Which chat a user's `Idempotency-Key` led to: `chats` says what it needs, this is where it is kept."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def remembering(self, user_id: UserId, key: str, *, chat_id: ChatId, now: datetime) -> Write:
        """The key's part of the creating transaction; fails when the key is there and alive."""
        second = int(now.timestamp())
        item = IdempotencyKeyModel(
            chat_id=_request_place(user_id),
            client_message_id=key,
            created_chat_id=chat_id,
            created_at=to_iso(now),
            ttl=second + CREATION_KEY_SECONDS,
        )
        absent = IdempotencyKeyModel.chat_id.does_not_exist() | (IdempotencyKeyModel.ttl <= second)
        return self._database.putting(REMEMBER_CREATION, item, absent)

    def find(self, user_id: UserId, key: str, *, now: datetime) -> ChatId | None:
        """The chat that the key led to; None when the key is unknown or expired."""
        item = self._database.get(FIND_CREATION, _request_place(user_id), key)
        if item is None or item.created_chat_id is None or item.ttl <= int(now.timestamp()):
            return None
        return ChatId(item.created_chat_id)


def _request_place(user_id: UserId) -> str:
    return f"request#{user_id}"
