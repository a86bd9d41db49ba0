"""The table `messages`: each message at its place in its chat.

On the hot path items are built and read in DynamoDB's own form: a transaction of a hundred items costs a fraction of
what the models would cost. The attributes are those of `MessageModel`, which a test holds this module to.
"""

from collections.abc import Iterable
from typing import Any

from foundation.kernel.ids import ChatId, MessageId, UserId
from foundation.stores.dynamodb import AccessPattern, Consistency, Database, Key, Operation, Write
from foundation.stores.dynamodb.database import BatchResult, RawItem
from messaging.domain import Message
from messaging.models import MessageModel

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
STORE_MESSAGE = AccessPattern(
    "Store message",
    MessageModel,
    Operation.TRANSACT_PUT,
    key="chat_id, sequence",
    condition="attribute_not_exists(chat_id)",
)

Place = tuple[ChatId, int]


class MessageStore:
    """Messages by chat and sequence. Reads are strongly consistent."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._table = database.table_name(MessageModel)

    def list_between(self, chat_id: ChatId, first: int, last: int, *, newest_first: bool = False) -> list[Message]:
        """The messages with these sequences and those in between."""
        pattern = GET_RECENT_MESSAGES if newest_first else GET_MESSAGES_AFTER
        found: list[Message] = []
        while first <= last:
            where = MessageModel.sequence.between(first, last)
            page = self._database.query_raw(pattern, chat_id, where=where, forward=not newest_first)
            found += map(message_of, page.items)
            if not page.more:
                break
            if newest_first:
                last = found[-1].sequence - 1
            else:
                first = found[-1].sequence + 1
        return found

    def find_at(self, places: Iterable[Place]) -> dict[Place, Message]:
        """The messages at these places, 100 a request."""
        return self.found_in(self._database.batch_get(self.lookup(places)))

    def lookup(self, places: Iterable[Place]) -> dict[AccessPattern[Any], list[Key]]:
        """The keys to read, for a caller that reads other tables in the same request."""
        return {GET_SPECIFIC_MESSAGE: list(places)}

    def found_in(self, result: BatchResult) -> dict[Place, Message]:
        messages = map(message_of, result.raw(GET_SPECIFIC_MESSAGE).values())
        return {(message.chat_id, message.sequence): message for message in messages}

    def storing(self, message: Message) -> Write:
        """The message's part of a transaction; fails when its place is taken."""
        put = {"TableName": self._table, "Item": item_of(message), "ConditionExpression": STORE_MESSAGE.condition}
        return Write(STORE_MESSAGE, {"Put": put})


def item_of(message: Message) -> RawItem:
    return {
        "chat_id": {"S": message.chat_id},
        "sequence": {"N": str(message.sequence)},
        "message_id": {"S": message.message_id},
        "sender_id": {"S": message.sender_id},
        "client_message_id": {"S": message.client_message_id},
        "content": {"S": message.content},
        "content_type": {"S": message.content_type},
        "created_at": {"S": message.created_at},
    }


def message_of(item: RawItem) -> Message:
    return Message(
        message_id=MessageId(item["message_id"]["S"]),
        chat_id=ChatId(item["chat_id"]["S"]),
        sequence=int(item["sequence"]["N"]),
        sender_id=UserId(item["sender_id"]["S"]),
        client_message_id=item["client_message_id"]["S"],
        content=item["content"]["S"],
        content_type=item["content_type"]["S"],
        created_at=item["created_at"]["S"],
    )
