"""Drafts of known members: written unread, and refused all the same when that was wrong."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from chats.domain import Membership, Role, Tally
from chats.errors import ChatNotFound
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import Database
from messaging.errors import ClientMessageIdConflict
from messaging.services.acquaintance import BELIEVED_FOR
from messaging.services.committer import WRITERS
from messaging.services.ingest import WARY_FOR
from messaging.services.lanes import Entry, Lane, Part
from tests.doubles import SettableClock, eventually
from tests.integration.messaging.stage import Dispatch, Stage, cancelled

UNREAD = ["TransactWriteItems"]
READ = ["BatchGetItem", "TransactWriteItems"]


@pytest.fixture
def elsewhere(other_database: Database, clock: SettableClock) -> Iterator[Stage]:
    """Another process on the same tables."""
    elsewhere = Stage(other_database, clock)
    yield elsewhere
    elsewhere.close()


@pytest.fixture
def known(stage: Stage, chat: ChatId, ann: UserId) -> ChatId:
    """A chat in which Ann has been seen: its counter by her first message, her membership after it by her second."""
    for number in range(2):
        assert sending(stage, chat, ann, f"before-{number}") == READ
    return chat


def sending(stage: Stage, chat: ChatId, sender: UserId, client_message_id: str, content: str = "hello") -> list[str]:
    """Send, and return what was asked of DynamoDB."""
    stage.wire.requests.clear()
    stage.committer.send(stage.draft(chat, sender, client_message_id, content))
    return list(stage.wire.operations)


class TestTheRequests:
    def test_a_known_members_message_is_one_transaction_of_three_items(
        self, stage: Stage, known: ChatId, ann: UserId
    ) -> None:
        for number in range(3):
            assert sending(stage, known, ann, f"id-{number}") == UNREAD
            [(_, request)] = stage.wire.requests
            assert len(request["TransactItems"]) == 3
        assert [message.sequence for message in stage.stored(known)] == [1, 2, 3, 4, 5]

    def test_who_has_not_been_seen_is_read(self, stage: Stage, known: ChatId, bob: UserId) -> None:
        assert sending(stage, known, bob, "id-1") == READ
        assert sending(stage, known, bob, "id-2") == UNREAD

    def test_what_was_seen_is_believed_for_half_a_minute(
        self, stage: Stage, known: ChatId, ann: UserId, clock: SettableClock
    ) -> None:
        clock.advance(seconds=BELIEVED_FOR - 1)
        assert sending(stage, known, ann, "id-1") == UNREAD
        clock.advance(seconds=2)
        assert sending(stage, known, ann, "id-2") == READ
        assert sending(stage, known, ann, "id-3") == UNREAD

    def test_another_process_that_writes_makes_this_one_read_again(
        self, stage: Stage, elsewhere: Stage, known: ChatId, ann: UserId, bob: UserId
    ) -> None:
        elsewhere.committer.send(elsewhere.draft(known, bob, "theirs"))
        assert sending(stage, known, ann, "ours") == [*UNREAD, *READ]
        assert [message.client_message_id for message in stage.stored(known)][2:] == ["theirs", "ours"]


class TestWhoHasLeft:
    def test_nothing_more_of_theirs_is_stored(self, stage: Stage, known: ChatId, ann: UserId) -> None:
        assert sending(stage, known, ann, "id-1") == UNREAD
        stage.remove(known, ann)
        with pytest.raises(ChatNotFound):
            sending(stage, known, ann, "id-2")
        assert len(stage.stored(known)) == 3

    def test_nor_when_another_process_let_them_go(
        self, stage: Stage, elsewhere: Stage, known: ChatId, ann: UserId
    ) -> None:
        elsewhere.remove(known, ann)
        with pytest.raises(ChatNotFound):
            sending(stage, known, ann, "id-1")
        assert len(stage.stored(known)) == 2

    def test_nor_when_they_leave_while_the_message_is_on_its_way(
        self, stage: Stage, elsewhere: Stage, known: ChatId, ann: UserId
    ) -> None:
        def leave_first(operation: str, request: dict[str, Any], pass_on: Dispatch) -> dict[str, Any]:
            if operation == "TransactWriteItems":
                stage.wire.interfere = None
                elsewhere.remove(known, ann)
            return pass_on(operation, request)

        stage.wire.interfere = leave_first
        with pytest.raises(ChatNotFound):
            stage.committer.send(stage.draft(known, ann, "id-1"))
        assert len(stage.stored(known)) == 2

    def test_nor_when_the_counter_was_read_after_they_left_and_the_membership_before(
        self, stage: Stage, elsewhere: Stage, chat: ChatId, ann: UserId
    ) -> None:
        """A batch read is no snapshot: what it says of members is not believed beyond the message it was made for."""

        def read_in_two_moments(operation: str, request: dict[str, Any], pass_on: Dispatch) -> dict[str, Any]:
            stage.wire.interfere = None
            tables = request["RequestItems"]
            early = {name: keys for name, keys in tables.items() if not name.endswith("chat_counters")}
            late = {name: keys for name, keys in tables.items() if name.endswith("chat_counters")}
            first = pass_on(operation, {"RequestItems": early})
            elsewhere.remove(chat, ann)
            second = pass_on(operation, {"RequestItems": late})
            return {"Responses": {**first["Responses"], **second["Responses"]}, "UnprocessedKeys": {}}

        stage.wire.interfere = read_in_two_moments
        stage.committer.send(stage.draft(chat, ann, "while-leaving"))
        with pytest.raises(ChatNotFound):
            sending(stage, chat, ann, "after")
        assert [message.client_message_id for message in stage.stored(chat)] == ["while-leaving"]

    def test_nor_when_their_chat_was_read_again_while_another_had_the_transaction_cancelled(
        self, stage: Stage, elsewhere: Stage, known: ChatId, ann: UserId
    ) -> None:
        """It is not to blame for that, and would be written again, on the word of what was read meanwhile."""
        moved = stage.create_chat(ann)
        for number in range(2):
            sending(stage, moved, ann, f"before-{number}")
        elsewhere.committer.send(elsewhere.draft(moved, ann, "theirs"))

        def leave_and_read_again(operation: str, request: dict[str, Any], pass_on: Dispatch) -> dict[str, Any]:
            stage.wire.interfere = None
            try:
                return pass_on(operation, request)
            finally:
                elsewhere.remove(known, ann)
                stage.ingest._known.meet(known, Tally(2, departures=1))

        stage.wire.interfere = leave_and_read_again
        entries = [Entry(stage.draft(chat, ann, "id-1"), stage.ids.message(), arrived=0.0) for chat in (known, moved)]
        parts = [Part(Lane(entry.draft.chat_id), (entry,), 0) for entry in entries]
        written = asyncio.run(stage.ingest.write(parts))
        assert written.innocent == []
        assert {stumble.part.chat_id for stumble in written.stumbles} == {known, moved}

    def test_the_others_go_on(self, stage: Stage, known: ChatId, ann: UserId, bob: UserId) -> None:
        stage.remove(known, bob)
        assert sending(stage, known, ann, "id-1") == [*UNREAD, *READ]
        assert sending(stage, known, ann, "id-2") == READ
        assert sending(stage, known, ann, "id-3") == UNREAD

    def test_who_comes_back_may_send_again(self, stage: Stage, known: ChatId, ann: UserId) -> None:
        stage.remove(known, ann)
        stage.memberships.add(Membership(known, ann, Role.MEMBER, stage.clock.now()))
        stage.committer.send(stage.draft(known, ann, "back"))
        assert [message.client_message_id for message in stage.stored(known)][2:] == ["back"]


class TestRepetitions:
    def test_a_repetition_is_found_by_its_transaction_and_answered_with_the_first(
        self, stage: Stage, known: ChatId, ann: UserId
    ) -> None:
        again = stage.committer.send(stage.draft(known, ann, "before-1"))
        assert (again.duplicate, again.message.sequence) == (True, 2)
        assert len(stage.stored(known)) == 2

    def test_another_text_under_the_same_id_is_refused(self, stage: Stage, known: ChatId, ann: UserId) -> None:
        with pytest.raises(ClientMessageIdConflict):
            sending(stage, known, ann, "before-1", "something else")
        assert len(stage.stored(known)) == 2

    def test_the_others_of_its_transaction_are_stored_by_the_next(
        self, stage: Stage, known: ChatId, ann: UserId
    ) -> None:
        others = [stage.create_chat(ann) for _ in range(WRITERS + 3)]
        for chat in others:
            for number in range(2):
                sending(stage, chat, ann, f"before-{number}")
        stage.wire.requests.clear()
        with stage.wire.held("TransactWriteItems"):
            blocking = []
            for chat in others[:WRITERS]:
                blocking.append(stage.committer.submit(stage.draft(chat, ann, "blocking")))
                eventually(lambda: len(stage.wire.operations) == len(blocking))
            repeated = stage.committer.submit(stage.draft(known, ann, "before-0"))
            fresh = [stage.committer.submit(stage.draft(chat, ann, "fresh")) for chat in others[WRITERS:]]
        assert repeated.result(20).duplicate
        assert [answer.result(20).message.sequence for answer in (*blocking, *fresh)] == [3] * len(others)
        assert stage.wire.operations.count("TransactWriteItems") == WRITERS + 2, "the cancelled one and the next"

    def test_for_a_while_everybody_is_read_after_one(
        self, stage: Stage, known: ChatId, ann: UserId, clock: SettableClock
    ) -> None:
        """After an outage all repeat themselves, and each repetition would cancel a transaction of many."""
        assert sending(stage, known, ann, "before-1") == [*UNREAD, "BatchGetItem", "BatchGetItem"]
        assert sending(stage, known, ann, "before-0") == ["BatchGetItem", "BatchGetItem"]
        # The chat was forgotten with the cancelled transaction, and has been seen again since.
        clock.advance(seconds=WARY_FOR)
        assert sending(stage, known, ann, "id-1") == UNREAD

    def test_a_conflict_is_none_of_them(self, stage: Stage, known: ChatId, ann: UserId) -> None:
        """Whatever stops a key's write but its condition says nothing of who repeats."""
        stage.wire.fail("TransactWriteItems", [cancelled(None, "TransactionConflict", None)])
        assert sending(stage, known, ann, "id-1") == [*UNREAD, *READ]
        assert sending(stage, known, ann, "id-2") == READ
        assert sending(stage, known, ann, "id-3") == UNREAD

    def test_the_same_id_of_another_sender_is_read_even_if_both_are_known(
        self, stage: Stage, known: ChatId, ann: UserId, bob: UserId
    ) -> None:
        sending(stage, known, bob, "hello-from-bob")
        with stage.wire.held("TransactWriteItems") as arrived:
            first = stage.committer.submit(stage.draft(known, ann, "shared"))
            assert arrived.wait(10)
            second = stage.committer.submit(stage.draft(known, bob, "shared"))
        assert first.result(20).message.sequence == 4
        assert isinstance(second.exception(20), ClientMessageIdConflict)
