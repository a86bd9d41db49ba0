from datetime import UTC, datetime

import pytest

from foundation.kernel.ids import ChatId, MessageId, UserId
from foundation.stores.dynamodb import TRANSACTION_ITEMS, AsyncDatabase, DynamoDBOptions
from messaging.domain import MAX_CONTENT_BYTES, MAX_SEQUENCE, Message
from messaging.models import IdempotencyKeyModel, MessageModel
from messaging.stores.messages import IdempotencyKeyStore, MessageStore, item_of, message_of

NOW = datetime(2026, 1, 30, 14, 30, tzinfo=UTC)
TRANSACTION_BYTES = 4 * 1024 * 1024


def message(content: str = "hello", sequence: int = 7) -> Message:
    return Message(
        MessageId("msg_01JJW3T9T0G5ZB1M2N3P4Q5R6S"),
        ChatId("chat_01JJW3S0A0G5ZB1M2N3P4Q5R6S"),
        sequence,
        UserId("user_01JJW3R1B0G5ZB1M2N3P4Q5R6S"),
        "x" * 128,
        content,
        "text/plain",
        "2026-01-30T14:30:00.000Z",
    )


@pytest.fixture
def database() -> AsyncDatabase:
    """Never reached: these tests build requests and send none."""
    return AsyncDatabase(DynamoDBOptions(region="us-east-1", endpoint_url="http://127.0.0.1:9", table_prefix="p_"))


class TestItems:
    def test_a_message_has_exactly_its_models_attributes(self) -> None:
        item = item_of(message())
        assert MessageModel.from_raw_data(item).serialize() == item
        assert item.keys() == MessageModel.get_attributes().keys()

    def test_a_message_survives_the_store(self) -> None:
        assert message_of(item_of(message())) == message()

    def test_a_key_is_readable_by_its_model(self, database: AsyncDatabase) -> None:
        item = IdempotencyKeyStore(database).inserting(message(), now=NOW).request["Put"]["Item"]
        assert IdempotencyKeyModel.from_raw_data(item).serialize() == item
        assert item.keys() == IdempotencyKeyModel.get_attributes().keys() - {"created_chat_id"}

    def test_writes_go_to_the_prefixed_tables(self, database: AsyncDatabase) -> None:
        assert MessageStore(database).storing(message()).request["Put"]["TableName"] == "p_messages"
        key = IdempotencyKeyStore(database).inserting(message(), now=NOW)
        assert key.request["Put"]["TableName"] == "p_idempotency_keys"

    def test_a_full_transaction_of_the_largest_items_is_far_from_4_mb(self, database: AsyncDatabase) -> None:
        largest = message("x" * MAX_CONTENT_BYTES, MAX_SEQUENCE)
        key = IdempotencyKeyStore(database).inserting(largest, now=NOW).request["Put"]["Item"]
        sizes = [
            sum(len(name) + len(value) for name, typed in item.items() for value in typed.values())
            for item in (item_of(largest), key)
        ]
        assert sum(sizes) * TRANSACTION_ITEMS < TRANSACTION_BYTES / 4
