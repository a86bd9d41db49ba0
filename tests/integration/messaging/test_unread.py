"""Drafts of cached members: written without a read, and refused by the transaction when the cache is stale."""

import asyncio
from typing import Any

import pytest

from chats.domain import CounterState
from chats.errors import ChatNotFound
from foundation.kernel.ids import ChatId, UserId
from messaging.errors import ClientMessageIdConflict
from messaging.services.committer import WRITERS
from messaging.services.ingest import CAUTIOUS_FOR, MEMBER_TTL, WriteResult
from messaging.services.queues import Batch, ChatQueue, PendingDraft
from tests.doubles import SettableClock, eventually
from tests.integration.messaging.services import Call, Services, cancelled

UNREAD = ["TransactWriteItems"]
READ = ["BatchGetItem", "TransactWriteItems"]


@pytest.fixture
def cached(services: Services, chat: ChatId, ann: UserId) -> ChatId:
    """A chat with Ann in the cache: its counter since her first message, her membership since her second."""
    for number in range(2):
        assert sending(services, chat, ann, f"before-{number}") == READ
    return chat


def sending(
    services: Services, chat: ChatId, sender: UserId, client_message_id: str, content: str = "hello"
) -> list[str]:
    """Send, and return the operations that DynamoDB was asked for."""
    services.wire.requests.clear()
    services.send(services.draft(chat, sender, client_message_id, content))
    return list(services.wire.operations)


class TestTheRequests:
    def test_a_cached_members_message_is_one_transaction_of_three_items(
        self, services: Services, cached: ChatId, ann: UserId
    ) -> None:
        for number in range(3):
            assert sending(services, cached, ann, f"id-{number}") == UNREAD
            [(_, request)] = services.wire.requests
            assert len(request["TransactItems"]) == 3
        assert [message.sequence for message in services.stored(cached)] == [1, 2, 3, 4, 5]

    def test_a_member_who_is_not_cached_is_read(self, services: Services, cached: ChatId, bob: UserId) -> None:
        assert sending(services, cached, bob, "id-1") == READ
        assert sending(services, cached, bob, "id-2") == UNREAD

    def test_a_cached_member_is_fresh_for_half_a_minute(
        self, services: Services, cached: ChatId, ann: UserId, clock: SettableClock
    ) -> None:
        clock.advance(seconds=MEMBER_TTL - 1)
        assert sending(services, cached, ann, "id-1") == UNREAD
        clock.advance(seconds=2)
        assert sending(services, cached, ann, "id-2") == READ
        assert sending(services, cached, ann, "id-3") == UNREAD

    def test_another_process_that_writes_makes_this_one_read_again(
        self, services: Services, other_process: Services, cached: ChatId, ann: UserId, bob: UserId
    ) -> None:
        other_process.send(other_process.draft(cached, bob, "theirs"))
        assert sending(services, cached, ann, "ours") == [*UNREAD, *READ]
        assert [message.client_message_id for message in services.stored(cached)][2:] == ["theirs", "ours"]


class TestMembersWhoLeft:
    def test_nothing_is_stored_after_a_member_left(self, services: Services, cached: ChatId, ann: UserId) -> None:
        assert sending(services, cached, ann, "id-1") == UNREAD
        services.remove(cached, ann)
        with pytest.raises(ChatNotFound):
            sending(services, cached, ann, "id-2")
        assert len(services.stored(cached)) == 3

    def test_nothing_is_stored_after_another_process_removed_the_member(
        self, services: Services, other_process: Services, cached: ChatId, ann: UserId
    ) -> None:
        other_process.remove(cached, ann)
        with pytest.raises(ChatNotFound):
            sending(services, cached, ann, "id-1")
        assert len(services.stored(cached)) == 2

    def test_nothing_is_stored_if_the_member_leaves_just_before_the_transaction(
        self, services: Services, other_process: Services, cached: ChatId, ann: UserId
    ) -> None:
        async def leave_first(operation: str, request: dict[str, Any], send: Call) -> dict[str, Any]:
            if operation == "TransactWriteItems":
                services.wire.intercept = None
                await asyncio.to_thread(other_process.remove, cached, ann)
            return await send(operation, request)

        services.wire.intercept = leave_first
        with pytest.raises(ChatNotFound):
            services.send(services.draft(cached, ann, "id-1"))
        assert len(services.stored(cached)) == 2

    def test_nothing_is_stored_later_if_the_counter_was_read_after_a_departure_and_the_membership_before(
        self, services: Services, other_process: Services, chat: ChatId, ann: UserId
    ) -> None:
        """A batch read is no snapshot: its members count for the message it was made for, and are not cached."""

        async def read_in_two_steps(operation: str, request: dict[str, Any], send: Call) -> dict[str, Any]:
            services.wire.intercept = None
            tables = request["RequestItems"]
            early = {name: keys for name, keys in tables.items() if not name.endswith("chat_counters")}
            late = {name: keys for name, keys in tables.items() if name.endswith("chat_counters")}
            first = await send(operation, {"RequestItems": early})
            await asyncio.to_thread(other_process.remove, chat, ann)
            second = await send(operation, {"RequestItems": late})
            return {"Responses": {**first["Responses"], **second["Responses"]}, "UnprocessedKeys": {}}

        services.wire.intercept = read_in_two_steps
        services.send(services.draft(chat, ann, "while-leaving"))
        with pytest.raises(ChatNotFound):
            sending(services, chat, ann, "after")
        assert [message.client_message_id for message in services.stored(chat)] == ["while-leaving"]

    def test_nothing_is_written_again_if_the_counter_was_read_again_while_another_chat_failed_the_transaction(
        self, services: Services, other_process: Services, cached: ChatId, ann: UserId
    ) -> None:
        """The chat did not cause the cancellation, but its counter changed: it must be read, not written again."""
        moved = services.create_chat(ann)
        for number in range(2):
            sending(services, moved, ann, f"before-{number}")
        other_process.send(other_process.draft(moved, ann, "theirs"))

        async def leave_and_read_again(operation: str, request: dict[str, Any], send: Call) -> dict[str, Any]:
            services.wire.intercept = None
            try:
                return await send(operation, request)
            finally:
                await asyncio.to_thread(other_process.remove, cached, ann)
                services.ingest.cache.remember_counter(cached, CounterState(2, departures=1))

        async def write() -> WriteResult:
            loop, ids = asyncio.get_running_loop(), services.ids
            drafts = [
                PendingDraft(services.draft(chat, ann, "id-1"), ids.message(), 0.0, loop.create_future())
                for chat in (cached, moved)
            ]
            return await services.ingest.write([Batch(ChatQueue(each.draft.chat_id), (each,), 0) for each in drafts])

        services.wire.intercept = leave_and_read_again
        result = services.run(write())
        assert result.unaffected == []
        assert {failure.batch.chat_id for failure in result.failed} == {cached, moved}

    def test_the_remaining_members_are_read_again_and_then_skip_reads(
        self, services: Services, cached: ChatId, ann: UserId, bob: UserId
    ) -> None:
        services.remove(cached, bob)
        assert sending(services, cached, ann, "id-1") == [*UNREAD, *READ]
        assert sending(services, cached, ann, "id-2") == READ
        assert sending(services, cached, ann, "id-3") == UNREAD

    def test_a_member_who_comes_back_may_send_again(self, services: Services, cached: ChatId, ann: UserId) -> None:
        services.remove(cached, ann)
        services.add(cached, ann)
        services.send(services.draft(cached, ann, "back"))
        assert [message.client_message_id for message in services.stored(cached)][2:] == ["back"]


class TestRepeatedMessages:
    def test_a_repeat_is_found_by_its_transaction_and_answered_with_the_first_message(
        self, services: Services, cached: ChatId, ann: UserId
    ) -> None:
        again = services.send(services.draft(cached, ann, "before-1"))
        assert (again.duplicate, again.message.sequence) == (True, 2)
        assert len(services.stored(cached)) == 2

    def test_another_text_under_the_same_id_is_refused(self, services: Services, cached: ChatId, ann: UserId) -> None:
        with pytest.raises(ClientMessageIdConflict):
            sending(services, cached, ann, "before-1", "something else")
        assert len(services.stored(cached)) == 2

    def test_the_others_of_its_transaction_are_stored_by_the_next(
        self, services: Services, cached: ChatId, ann: UserId
    ) -> None:
        others = [services.create_chat(ann) for _ in range(WRITERS + 3)]
        for chat in others:
            for number in range(2):
                sending(services, chat, ann, f"before-{number}")
        services.wire.requests.clear()
        with services.wire.held("TransactWriteItems"):
            blocking = []
            for chat in others[:WRITERS]:
                blocking.append(services.submit(services.draft(chat, ann, "blocking")))
                eventually(lambda: len(services.wire.operations) == len(blocking))
            repeated = services.submit(services.draft(cached, ann, "before-0"))
            fresh = [services.submit(services.draft(chat, ann, "fresh")) for chat in others[WRITERS:]]
        assert repeated.result(20).duplicate
        assert [answer.result(20).message.sequence for answer in (*blocking, *fresh)] == [3] * len(others)
        assert services.wire.operations.count("TransactWriteItems") == WRITERS + 2, "the cancelled one and the next"

    def test_after_a_repeat_every_draft_is_read_for_a_while(
        self, services: Services, cached: ChatId, ann: UserId, clock: SettableClock
    ) -> None:
        """After an outage most clients repeat their messages, and each repeat would cancel a whole transaction."""
        assert sending(services, cached, ann, "before-1") == [*UNREAD, "BatchGetItem", "BatchGetItem"]
        assert sending(services, cached, ann, "before-0") == ["BatchGetItem", "BatchGetItem"]
        # The cancelled transaction removed the chat from the cache; the reads since have added it again.
        clock.advance(seconds=CAUTIOUS_FOR)
        assert sending(services, cached, ann, "id-1") == UNREAD

    def test_a_conflict_does_not_count_as_a_repeat(self, services: Services, cached: ChatId, ann: UserId) -> None:
        services.wire.fail("TransactWriteItems", [cancelled(None, "TransactionConflict", None)])
        assert sending(services, cached, ann, "id-1") == [*UNREAD, *READ]
        assert sending(services, cached, ann, "id-2") == READ
        assert sending(services, cached, ann, "id-3") == UNREAD

    def test_the_same_id_of_another_sender_is_read_even_if_both_are_cached(
        self, services: Services, cached: ChatId, ann: UserId, bob: UserId
    ) -> None:
        sending(services, cached, bob, "hello-from-bob")
        with services.wire.held("TransactWriteItems") as arrived:
            first = services.submit(services.draft(cached, ann, "shared"))
            assert arrived.wait(10)
            second = services.submit(services.draft(cached, bob, "shared"))
        assert first.result(20).message.sequence == 4
        assert isinstance(second.exception(20), ClientMessageIdConflict)
