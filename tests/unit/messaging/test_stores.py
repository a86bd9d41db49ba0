from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest

from foundation.kernel.ids import ChatId, MessageId, UserId
from foundation.stores.dynamodb import TRANSACTION_ITEMS, AsyncDatabase, DynamoDBOptions
from messaging.domain import (
    MAX_CONTENT_BYTES,
    MAX_EMOJI,
    MAX_EMOJI_BYTES,
    MAX_MENTIONS,
    MAX_REACTIONS,
    MAX_SEQUENCE,
    Action,
    Kind,
    Message,
)
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
    def test_a_plain_message_has_no_attribute_that_its_model_does_not_require(self) -> None:
        item = item_of(message())
        assert MessageModel.from_raw_data(item).serialize() == item
        assert item.keys() == {name for name, each in MessageModel.get_attributes().items() if not each.null}

    def test_a_message_survives_the_store(self) -> None:
        assert message_of(item_of(message())) == message()

    def test_a_key_is_readable_by_its_model(self, database: AsyncDatabase) -> None:
        item = IdempotencyKeyStore(database).inserting(message(), digest="d" * 32, now=NOW).request["Put"]["Item"]
        assert IdempotencyKeyModel.from_raw_data(item).serialize() == item
        assert item.keys() == IdempotencyKeyModel.get_attributes().keys() - {"created_chat_id"}

    def test_writes_go_to_the_prefixed_tables(self, database: AsyncDatabase) -> None:
        assert MessageStore(database).storing(message()).request["Put"]["TableName"] == "p_messages"
        key = IdempotencyKeyStore(database).inserting(message(), digest="d" * 32, now=NOW)
        assert key.request["Put"]["TableName"] == "p_idempotency_keys"

    def test_an_entry_of_every_kind_survives_the_store(self) -> None:
        user = UserId("user_01JJW3R1B0G5ZB1M2N3P4Q5R6S")
        for entry in (
            replace(message(""), kind=Kind.DELETION, target=3, others=4),
            replace(message(""), kind=Kind.REACTION, target=3, emoji="👍", action=Action.ADD, others=4),
            replace(message(""), kind=Kind.PIN, target=3, action=Action.REMOVE, others=4),
            replace(message(""), kind=Kind.NOTICE, notice={"type": "chat_renamed", "name": "x"}, others=4),
            replace(message(), reply_to=2, mentions=(user,), last_change=9, edited_at="2026-01-30T14:30:00.000Z"),
            replace(message(""), last_change=9, deleted_at="2026-01-30T14:30:00.000Z"),
            replace(message(), last_change=9, reactions={"👍": frozenset((user,))}),
        ):
            assert message_of(item_of(entry)) == entry
            MessageModel.from_raw_data({name: each for name, each in item_of(entry).items() if ":" not in name})

    def test_the_largest_message_is_far_below_100_kb_and_its_update_below_dynamodbs_limits(
        self, database: AsyncDatabase
    ) -> None:
        ids = [UserId(f"user_{number:026d}") for number in range(MAX_REACTIONS)]
        emoji = [chr(0x1F600 + number) * (MAX_EMOJI_BYTES // 4) for number in range(MAX_EMOJI)]
        share = MAX_REACTIONS // MAX_EMOJI
        reactions = {name: frozenset(ids[index * share : (index + 1) * share]) for index, name in enumerate(emoji)}
        largest = replace(
            message("x" * MAX_CONTENT_BYTES, MAX_SEQUENCE),
            reply_to=MAX_SEQUENCE,
            mentions=tuple(ids[:MAX_MENTIONS]),
            edited_at="2026-01-30T14:30:00.000Z",
            last_change=MAX_SEQUENCE,
            others=MAX_SEQUENCE,
            reactions=reactions,
        )
        assert len(orjson.dumps(item_of(largest))) < 100 * 1024 / 2
        deleted = replace(largest, content="", mentions=(), reactions=None, last_change=1, deleted_at="x")
        for before, after in ((deleted, largest), (largest, deleted)):
            update = MessageStore(database).changing(before, after).request["Update"]
            assert len(update["UpdateExpression"].encode()) < 4096

    def test_a_full_transaction_of_the_largest_items_is_far_from_4_mb(self, database: AsyncDatabase) -> None:
        largest = message("x" * MAX_CONTENT_BYTES, MAX_SEQUENCE)
        key = IdempotencyKeyStore(database).inserting(largest, digest="d" * 32, now=NOW).request["Put"]["Item"]
        sizes = [
            sum(len(name) + len(value) for name, typed in item.items() for value in typed.values())
            for item in (item_of(largest), key)
        ]
        assert sum(sizes) * TRANSACTION_ITEMS < TRANSACTION_BYTES / 4
