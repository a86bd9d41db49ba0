"""What every engine behind `Database` must do alike."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from accounts.models import UserModel
from chats.models import CounterModel, MembershipModel
from foundation.stores.dynamodb import AsyncDatabase, Database, DynamoDBOptions
from foundation.stores.dynamodb.requests import position_of
from foundation.stores.errors import (
    CancellationReason,
    ConditionFailed,
    StoreRefused,
    TransactionCancelled,
    WriteRefused,
)
from messaging.models import MessageModel
from tests.contract import patterns as p


def user(name: str, phone: str | None = None) -> UserModel:
    return UserModel(user_id=name, display_name=name.title(), phone_number=phone)


def membership(chat: str, member: str) -> MembershipModel:
    return MembershipModel(chat_id=chat, user_id=member, role="member", joined_at="2026-01-30T14:30:00.000Z")


def message(sequence: int, content: str = "hello") -> MessageModel:
    return MessageModel(
        chat_id="chat",
        sequence=sequence,
        message_id=f"msg_{sequence}",
        sender_id="user",
        client_message_id=f"c{sequence}",
        content=content,
        content_type="text/plain",
        created_at="2026-01-30T14:30:00.000Z",
    )


class TestItems:
    def test_a_strong_read_right_after_a_write_sees_it(self, database: Database) -> None:
        database.put(p.PUT_USER, user("ann"))
        found = database.get(p.GET_USER, "ann")
        assert found is not None
        assert found.display_name == "Ann"

    def test_what_was_never_written_is_none(self, database: Database) -> None:
        assert database.get(p.GET_USER, "nobody") is None

    def test_a_conditional_put_keeps_the_first(self, database: Database) -> None:
        database.put(p.PUT_USER, user("ann"))
        with pytest.raises(ConditionFailed):
            database.put(p.PUT_USER, UserModel(user_id="ann", display_name="Eve"), UserModel.user_id.does_not_exist())
        found = database.get(p.GET_USER, "ann")
        assert found is not None
        assert found.display_name == "Ann"

    def test_an_update_returns_the_new_state(self, database: Database) -> None:
        database.put(p.PUT_COUNTER, CounterModel(chat_id="chat", sequence_counter=4))
        moved = database.update(p.MOVE_COUNTER, ("chat",), [CounterModel.sequence_counter.set(7)])
        assert moved.sequence_counter == 7

    def test_an_update_whose_condition_fails_changes_nothing(self, database: Database) -> None:
        database.put(p.PUT_COUNTER, CounterModel(chat_id="chat", sequence_counter=4))
        with pytest.raises(ConditionFailed):
            database.update(
                p.MOVE_COUNTER,
                ("chat",),
                [CounterModel.sequence_counter.set(9)],
                CounterModel.sequence_counter == 3,
            )
        kept = database.get(p.GET_COUNTER, "chat")
        assert kept is not None
        assert kept.sequence_counter == 4

    def test_deleting_twice_succeeds_and_deleting_conditionally_does_not(self, database: Database) -> None:
        database.put(p.PUT_USER, user("ann"))
        database.delete(p.DELETE_USER, ("ann",))
        database.delete(p.DELETE_USER, ("ann",))
        with pytest.raises(ConditionFailed):
            database.delete(p.DELETE_USER, ("ann",), UserModel.user_id.exists())

    def test_numbers_keep_their_value_and_texts_may_be_empty_or_wide(self, database: Database) -> None:
        largest = 10**15
        database.batch_put(p.WRITE_MESSAGES, [message(largest, content=""), message(2, content="𝄞" * 1024)])
        page = database.query(p.MESSAGES, "chat")
        assert [(item.sequence, item.content) for item in page.items] == [(2, "𝄞" * 1024), (largest, "")]


class TestTransactions:
    def test_all_is_written_together(self, database: Database) -> None:
        database.put(p.PUT_COUNTER, CounterModel(chat_id="chat", sequence_counter=0))
        database.transact(
            [
                database.putting(p.ADD_USER, user("ann"), UserModel.user_id.does_not_exist()),
                database.updating(
                    p.SHIFT_COUNTER,
                    ("chat",),
                    [CounterModel.sequence_counter.set(1)],
                    CounterModel.sequence_counter == 0,
                ),
            ]
        )
        counter = database.get(p.GET_COUNTER, "chat")
        assert counter is not None
        assert counter.sequence_counter == 1
        assert database.get(p.GET_USER, "ann") is not None

    def test_a_failed_condition_cancels_all_and_names_the_item_to_blame(self, database: Database) -> None:
        database.put(p.PUT_USER, user("ann"))
        with pytest.raises(TransactionCancelled) as cancelled:
            database.transact(
                [
                    database.putting(p.ADD_USER, user("bob"), UserModel.user_id.does_not_exist()),
                    database.putting(p.ADD_USER, user("ann"), UserModel.user_id.does_not_exist()),
                    database.deleting(p.DROP_USER, ("zoe",), UserModel.user_id.exists()),
                ]
            )
        blamed = CancellationReason("ConditionalCheckFailed")
        assert cancelled.value.reasons == (None, blamed, blamed)
        assert not cancelled.value.is_transient
        assert database.get(p.GET_USER, "bob") is None

    def test_a_hundred_items_fit_and_one_more_does_not(self, database: Database) -> None:
        names = [f"user{number}" for number in range(101)]
        writes = [database.putting(p.ADD_USER, user(name)) for name in names]
        with pytest.raises(StoreRefused):
            database.transact(writes)
        database.transact(writes[:100])
        assert len(database.batch_get({p.READ_USERS: [(name,) for name in names]}).of(p.READ_USERS)) == 100


class TestQueries:
    def test_a_sparse_index_shows_only_items_that_have_its_key(self, database: Database) -> None:
        database.put(p.PUT_USER, user("ann", phone="+4930123456"))
        database.put(p.PUT_USER, UserModel(user_id="phone#+4930123456", owner_id="ann"))
        found = database.query(p.FIND_PHONE, "+4930123456").items
        assert [item.user_id for item in found] == ["ann"]
        assert "display_name" not in found[0].attribute_values

    def test_an_inverted_index_lists_the_other_side_in_key_order(self, database: Database) -> None:
        database.batch_put(p.WRITE_MEMBERS, [membership("b", "ann"), membership("a", "ann"), membership("a", "bob")])
        assert [item.chat_id for item in database.query(p.CHATS_OF, "ann").items] == ["a", "b"]

    @pytest.mark.parametrize(("forward", "expected"), [(True, [1, 2, 3, 4, 5, 6, 7]), (False, [7, 6, 5, 4, 3, 2, 1])])
    def test_pages_join_without_gap_or_overlap(self, database: Database, forward: bool, expected: list[int]) -> None:
        database.batch_put(p.WRITE_MESSAGES, [message(number) for number in range(1, 8)])
        seen: list[int] = []
        page = database.query(p.MESSAGES, "chat", limit=3, forward=forward)
        seen += [int(item.sequence) for item in page.items]
        while page.more:
            after = position_of(p.MESSAGES, page.items[-1])
            page = database.query(p.MESSAGES, "chat", limit=3, forward=forward, after=after)
            seen += [int(item.sequence) for item in page.items]
        assert seen == expected

    def test_pages_of_an_index_join_too(self, database: Database) -> None:
        chats = [f"chat{number:02}" for number in range(9)]
        database.batch_put(p.WRITE_MEMBERS, [membership(chat, "ann") for chat in chats])
        first = database.query(p.CHATS_OF, "ann", limit=5)
        rest = database.query(p.CHATS_OF, "ann", after=position_of(p.CHATS_OF, first.items[-1]))
        assert [item.chat_id for item in [*first.items, *rest.items]] == chats
        assert (first.more, rest.more) == (True, False)

    def test_a_range_of_the_sort_key(self, database: Database) -> None:
        database.batch_put(p.WRITE_MESSAGES, [message(number) for number in range(1, 8)])
        page = database.query(p.MESSAGES, "chat", where=MessageModel.sequence > 4)
        assert [item.sequence for item in page.items] == [5, 6, 7]

    def test_a_bounded_collection_is_read_and_counted_whole(self, database: Database) -> None:
        members = [membership("chat", f"user{number:03}") for number in range(120)]
        database.batch_put(p.WRITE_MEMBERS, members)
        assert len(database.query_all(p.MEMBERS, "chat")) == 120
        assert database.count(p.MEMBERS, "chat") == 120


class TestBatches:
    def test_keys_of_several_tables_are_read_together_and_the_absent_stay_absent(self, database: Database) -> None:
        database.put(p.PUT_USER, user("ann"))
        database.batch_put(p.WRITE_MEMBERS, [membership("chat", "ann")])
        result = database.batch_get(
            {
                p.READ_USERS: [("ann",), ("ann",), ("nobody",)],
                p.READ_MEMBERS: [("chat", "ann"), ("chat", "bob")],
            }
        )
        assert list(result.of(p.READ_USERS)) == [("ann",)]
        assert list(result.of(p.READ_MEMBERS)) == [("chat", "ann")]

    def test_more_than_the_engine_takes_at_once(self, database: Database) -> None:
        names = [f"user{number:03}" for number in range(230)]
        database.batch_put(p.WRITE_MEMBERS, [membership("chat", name) for name in names])
        keys = [("chat", name) for name in names]
        assert len(database.batch_get({p.READ_MEMBERS: keys}).of(p.READ_MEMBERS)) == 230
        database.batch_delete(p.DROP_MEMBERS, keys[:200])
        assert len(database.query_all(p.MEMBERS, "chat")) == 30


class TestOnTheEventLoop:
    """`AsyncDatabase` in the test's own loop; every other test uses it through `Database`."""

    @pytest.fixture
    async def on_loop(self, database: Database, options: DynamoDBOptions) -> AsyncIterator[AsyncDatabase]:
        on_loop = AsyncDatabase(options)
        yield on_loop
        await on_loop.wire.close()

    async def test_what_is_written_is_found_in_the_next_read(self, on_loop: AsyncDatabase) -> None:
        await on_loop.transact_once([on_loop.putting(p.ADD_USER, user(name)) for name in ("ann", "bob")])
        found = await on_loop.batch_get({p.READ_USERS: [("ann",), ("nobody",)], p.READ_MEMBERS: [("chat", "ann")]})
        assert list(found.of(p.READ_USERS)) == [("ann",)]
        assert found.of(p.READ_MEMBERS) == {}

    async def test_more_keys_than_the_engine_takes_at_once(self, on_loop: AsyncDatabase) -> None:
        names = [f"user{number:03}" for number in range(130)]
        await on_loop.batch_put(p.WRITE_MEMBERS, [membership("chat", name) for name in names])
        found = await on_loop.batch_get({p.READ_MEMBERS: [("chat", name) for name in names]})
        assert len(found.of(p.READ_MEMBERS)) == 130

    async def test_a_cancelled_transaction_names_the_item_to_blame(self, on_loop: AsyncDatabase) -> None:
        await on_loop.put(p.PUT_USER, user("bob"))
        absent = UserModel.user_id.does_not_exist()
        with pytest.raises(TransactionCancelled) as cancelled:
            await on_loop.transact_once([on_loop.putting(p.ADD_USER, user(name), absent) for name in ("ann", "bob")])
        assert [reason is not None for reason in cancelled.value.reasons] == [False, True]
        assert await on_loop.get(p.GET_USER, "ann") is None

    async def test_raw_items_come_in_dynamodbs_own_form(self, on_loop: AsyncDatabase) -> None:
        await on_loop.batch_put(p.WRITE_MESSAGES, [message(number) for number in (1, 2, 3)])
        page = await on_loop.query_raw(p.MESSAGES, "chat", limit=2)
        assert [item["sequence"] for item in page.items] == [{"N": "1"}, {"N": "2"}]
        assert page.more

    async def test_an_update_whose_condition_fails_shows_the_item_if_asked(self, on_loop: AsyncDatabase) -> None:
        await on_loop.put(p.PUT_COUNTER, CounterModel(chat_id="chat", sequence_counter=4))
        request = {
            "TableName": on_loop.table_name(CounterModel),
            "Key": {"chat_id": {"S": "chat"}},
            "UpdateExpression": "SET sequence_counter = :to",
            "ConditionExpression": "sequence_counter < :to",
            "ExpressionAttributeValues": {":to": {"N": "4"}},
        }
        with pytest.raises(ConditionFailed) as failed:
            await on_loop.update_raw(p.MOVE_COUNTER, request)
        assert failed.value.item is None
        with pytest.raises(ConditionFailed) as failed:
            await on_loop.update_raw(p.MOVE_COUNTER, {**request, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"})
        assert failed.value.item is not None
        assert failed.value.item["sequence_counter"] == {"N": "4"}

    async def test_concurrent_reads_get_each_their_own_answer(self, on_loop: AsyncDatabase) -> None:
        names = [f"user{number:02}" for number in range(50)]
        await on_loop.transact_once([on_loop.putting(p.ADD_USER, user(name)) for name in names])
        found = await asyncio.gather(*(on_loop.get(p.GET_USER, name) for name in names))
        assert [item and item.user_id for item in found] == names


class TestReadOnly:
    """The fanout's client: reads pass, writes never leave the process."""

    @pytest.fixture
    def reader(self, options: DynamoDBOptions) -> Database:
        return Database(options, read_only=True)

    def test_reads_pass(self, database: Database, reader: Database) -> None:
        database.put(p.PUT_USER, user("ann"))
        assert reader.get(p.GET_USER, "ann") is not None
        assert reader.batch_get({p.READ_USERS: [("ann",)]}).of(p.READ_USERS)

    def test_every_way_to_write_is_refused_and_nothing_changes(self, database: Database, reader: Database) -> None:
        database.put(p.PUT_USER, user("ann"))
        attempts: list[Callable[[], object]] = [
            lambda: reader.put(p.PUT_USER, user("eve")),
            lambda: reader.update(p.MOVE_COUNTER, ("chat",), [CounterModel.sequence_counter.set(1)]),
            lambda: reader.delete(p.DELETE_USER, ("ann",)),
            lambda: reader.batch_put(p.WRITE_MEMBERS, [membership("chat", "eve")]),
            lambda: reader.batch_delete(p.DROP_MEMBERS, [("chat", "eve")]),
            lambda: reader.transact([reader.putting(p.ADD_USER, user("eve"))]),
            lambda: reader.call("DeleteTable", {"TableName": reader.table_name(UserModel)}),
        ]
        for attempt in attempts:
            with pytest.raises(WriteRefused):
                attempt()
        assert database.get(p.GET_USER, "ann") is not None
        assert database.get(p.GET_USER, "eve") is None
