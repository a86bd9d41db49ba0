"""The tables `messages` and `idempotency_keys`, which every entry writes together.

A key tells what a client's id led to, so that a retry finds the first attempt. A key past its TTL counts as absent,
also while DynamoDB has not deleted it yet. Items are built and read in DynamoDB's own form, which costs a fraction of
what the models cost. A test compares the attributes with those of the models.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from foundation.kernel.clock import to_iso
from foundation.kernel.ids import ChatId, MessageId, UserId
from foundation.stores.dynamodb import (
    AccessPattern,
    AsyncDatabase,
    BatchResult,
    Consistency,
    Database,
    Key,
    Operation,
    RawItem,
    Tables,
    Write,
)
from messaging.domain import Action, Kind, Message
from messaging.models import IdempotencyKeyModel, MessageModel

_ABSENT = "attribute_not_exists(chat_id) OR #ttl <= :now"

GET_MESSAGES_AFTER = AccessPattern(
    "Get messages after seq",
    MessageModel,
    Operation.QUERY,
    key="chat_id, sequence BETWEEN",
    consistency=Consistency.STRONG,
)
GET_RECENT_MESSAGES = AccessPattern(
    "Get recent N messages",
    MessageModel,
    Operation.QUERY,
    key="chat_id, sequence BETWEEN (reverse)",
    consistency=Consistency.STRONG,
)
GET_SPECIFIC_MESSAGE = AccessPattern(
    "Get specific message",
    MessageModel,
    Operation.BATCH_GET,
    key="chat_id, sequence",
    consistency=Consistency.STRONG,
)
CHANGE_MESSAGE = AccessPattern(
    "Change message",
    MessageModel,
    Operation.TRANSACT_UPDATE,
    key="chat_id, sequence",
    condition="last_change = :seen",
)
STORE_MESSAGE = AccessPattern(
    "Store message",
    MessageModel,
    Operation.TRANSACT_PUT,
    key="chat_id, sequence",
    condition="attribute_not_exists(chat_id)",
)
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

EntryKey = tuple[ChatId, int]
KeyId = tuple[ChatId, str]

MESSAGE_KEY_SECONDS = 7 * 24 * 3600
CREATION_KEY_SECONDS = 24 * 3600


class MessageStore:
    """Messages by chat and sequence. Reads are strongly consistent."""

    def __init__(self, database: AsyncDatabase) -> None:
        self._database = database
        self._table = database.table_name(MessageModel)

    async def list_between(
        self, chat_id: ChatId, first: int, last: int, *, newest_first: bool = False
    ) -> list[Message]:
        """The messages with these sequences and those in between."""
        pattern = GET_RECENT_MESSAGES if newest_first else GET_MESSAGES_AFTER
        found: list[Message] = []
        while first <= last:
            where = MessageModel.sequence.between(first, last)
            page = await self._database.query_raw(pattern, chat_id, where=where, forward=not newest_first)
            found += map(message_of, page.items)
            if not page.more:
                break
            if newest_first:
                last = found[-1].sequence - 1
            else:
                first = found[-1].sequence + 1
        return found

    async def find_at(self, places: Iterable[EntryKey]) -> dict[EntryKey, Message]:
        """The messages at these places, 100 a request."""
        return self.found_in(await self._database.batch_get(self.lookup(places)))

    async def filled(self, messages: list[Message], known: Mapping[EntryKey, Message] | None = None) -> list[Message]:
        """The messages, edits with the text of their targets. Targets that are not `known` are read in one batch."""
        targets = {(each.chat_id, each.target) for each in messages if each.kind is Kind.EDIT and each.target}
        if not targets:
            return messages
        found = dict(known or {})
        found |= {(each.chat_id, each.sequence): each for each in messages}
        if missing := targets - found.keys():
            found |= await self.find_at(missing)
        return [
            each.filled_from(found.get((each.chat_id, each.target or 0))) if each.kind is Kind.EDIT else each
            for each in messages
        ]

    def lookup(self, places: Iterable[EntryKey]) -> dict[AccessPattern[Any], list[Key]]:
        """The keys to read, for a caller that reads other tables in the same request."""
        return {GET_SPECIFIC_MESSAGE: list(places)}

    def found_in(self, result: BatchResult) -> dict[EntryKey, Message]:
        messages = map(message_of, result.raw(GET_SPECIFIC_MESSAGE).values())
        return {(message.chat_id, message.sequence): message for message in messages}

    def storing(self, message: Message) -> Write:
        """The message's part of a transaction; fails when its sequence is taken."""
        put = {"TableName": self._table, "Item": item_of(message), "ConditionExpression": STORE_MESSAGE.condition}
        return Write(STORE_MESSAGE, {"Put": put})

    def changing(self, before: Message, after: Message) -> Write:
        """The changed message's part of a transaction; fails when it has changed since it was read."""
        old, new = item_of(before), item_of(after)
        changed = [name for name in new if new[name] != old.get(name)]
        removed = [name for name in old if name not in new]
        names = {name: f"#{index}" for index, name in enumerate([*changed, *removed])}
        actions = "SET " + ", ".join(f"{names[name]} = :{index}" for index, name in enumerate(changed))
        if removed:
            actions += " REMOVE " + ", ".join(names[name] for name in removed)
        values = {f":{index}": new[name] for index, name in enumerate(changed)}
        condition = "attribute_not_exists(last_change)"
        if before.last_change is not None:
            condition, values[":seen"] = "last_change = :seen", old["last_change"]
        update = {
            "TableName": self._table,
            "Key": {"chat_id": old["chat_id"], "sequence": old["sequence"]},
            "UpdateExpression": actions,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {placeholder: name for name, placeholder in names.items()},
            "ExpressionAttributeValues": values,
        }
        return Write(CHANGE_MESSAGE, {"Update": update})


@dataclass(frozen=True, slots=True)
class StoredKey:
    """What a message key stands for. `digest` is None in keys that are older than it."""

    message_id: MessageId
    sequence: int
    digest: str | None


class IdempotencyKeyStore:
    """Message keys by chat and client message id."""

    def __init__(self, tables: Tables) -> None:
        self._table = tables.table_name(IdempotencyKeyModel)

    def lookup(self, places: Iterable[KeyId]) -> dict[AccessPattern[Any], list[Key]]:
        """The keys to read, for a caller that reads other tables in the same request."""
        return {CHECK_DUPLICATE: list(places)}

    def found_in(self, result: BatchResult, *, now: datetime) -> dict[KeyId, StoredKey]:
        """The keys of such a read that have not expired."""
        second = int(now.timestamp())
        return {
            (ChatId(item["chat_id"]["S"]), item["client_message_id"]["S"]): StoredKey(
                MessageId(item["message_id"]["S"]),
                int(item["sequence"]["N"]),
                item["digest"]["S"] if "digest" in item else None,
            )
            for item in result.raw(CHECK_DUPLICATE).values()
            if int(item["ttl"]["N"]) > second
        }

    def inserting(self, message: Message, *, digest: str, now: datetime) -> Write:
        """The key's part of the message's transaction; fails when the key exists and has not expired."""
        second = int(now.timestamp())
        item = {
            "chat_id": {"S": message.chat_id},
            "client_message_id": {"S": message.client_message_id},
            "message_id": {"S": message.message_id},
            "sequence": {"N": str(message.sequence)},
            "digest": {"S": digest},
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
    """Which chat a user's `Idempotency-Key` led to. Implements the interface of `chats.services.creation_keys`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def remembering(self, user_id: UserId, key: str, *, chat_id: ChatId, now: datetime) -> Write:
        """The key's part of the creating transaction; fails when the key exists and has not expired."""
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


_REACTION = "reaction:"
# The attributes of a message that has nothing but its text.
_PLAIN = 8


def item_of(message: Message) -> RawItem:
    """The stored form. A stored edit has no text: it lives in the target alone, so that a deletion deletes it."""
    is_edit = message.kind is Kind.EDIT
    item: RawItem = {
        "chat_id": {"S": message.chat_id},
        "sequence": {"N": str(message.sequence)},
        "message_id": {"S": message.message_id},
        "sender_id": {"S": message.sender_id},
        "client_message_id": {"S": message.client_message_id},
        "content": {"S": "" if is_edit else message.content},
        "content_type": {"S": message.content_type},
        "created_at": {"S": message.created_at},
    }
    if message.others:
        item["others"] = {"N": str(message.others)}
    if message.kind is not Kind.MESSAGE:
        item["kind"] = {"S": message.kind}
    if message.mentions and not is_edit:
        item["mentions"] = {"L": [{"S": user_id} for user_id in message.mentions]}
    if message.is_plain:
        return item
    for name in _NUMBERS:
        if (number := getattr(message, name)) is not None:
            item[name] = {"N": str(number)}
    for name in _TEXTS:
        if (text := getattr(message, name)) is not None:
            item[name] = {"S": text}
    if message.notice is not None:
        item["notice"] = {"S": orjson.dumps(message.notice).decode()}
    for emoji, user_ids in (message.reactions or {}).items():
        item[_REACTION + emoji] = {"SS": sorted(user_ids)}
    return item


# After a rollback a chat may have kinds of the version that was rolled back. They keep their places, as themselves.
_KINDS: Mapping[str, Kind] = {str(kind): kind for kind in Kind}
_ACTIONS: Mapping[str, Action] = {str(action): action for action in Action}
_NUMBERS = ("reply_to", "last_change", "target")
_TEXTS = ("edited_at", "deleted_at", "emoji", "action")


def message_of(item: RawItem) -> Message:
    message = Message(
        message_id=MessageId(item["message_id"]["S"]),
        chat_id=ChatId(item["chat_id"]["S"]),
        sequence=int(item["sequence"]["N"]),
        sender_id=UserId(item["sender_id"]["S"]),
        client_message_id=item["client_message_id"]["S"],
        content=item["content"]["S"],
        content_type=item["content_type"]["S"],
        created_at=item["created_at"]["S"],
        others=int(item["others"]["N"]) if "others" in item else 0,
    )
    return message if len(item) == _PLAIN + ("others" in item) else replace(message, **_optional_fields(item))


def _optional_fields(item: RawItem) -> dict[str, Any]:
    fields: dict[str, Any] = {name: int(item[name]["N"]) for name in _NUMBERS if name in item}
    fields |= {name: item[name]["S"] for name in _TEXTS if name in item}
    if "action" in item:
        fields["action"] = _ACTIONS.get(item["action"]["S"], item["action"]["S"])
    if "kind" in item:
        fields["kind"] = _KINDS.get(item["kind"]["S"], item["kind"]["S"])
    if "mentions" in item:
        fields["mentions"] = tuple(UserId(each["S"]) for each in item["mentions"]["L"])
    if "notice" in item:
        fields["notice"] = orjson.loads(item["notice"]["S"])
    if reacted := [name for name in item if name.startswith(_REACTION)]:
        fields["reactions"] = {name.removeprefix(_REACTION): frozenset(item[name]["SS"]) for name in reacted}
    return fields
