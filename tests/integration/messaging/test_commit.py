"""The group committer under load, contention, faults and shutdown."""

import threading
from collections.abc import Iterator, Sequence
from queue import Queue
from typing import Any

import orjson
import pytest

from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import Database
from foundation.stores.dynamodb.http import END_OF_HEAD, Answer
from foundation.stores.errors import EventLogUnavailable, StoreRefused, StoreUnavailable, Throttled, TransactionConflict
from foundation.stores.kafka import Outgoing, Told
from messaging.errors import Overloaded
from messaging.services.history import Window
from messaging.services.lanes import FULL
from tests.doubles import SettableClock, eventually
from tests.integration.messaging.stage import Dispatch, Stage, cancelled


@pytest.fixture
def rival(other_database: Database, clock: SettableClock) -> Iterator[Stage]:
    """Another process on the same tables."""
    rival = Stage(other_database, clock)
    yield rival
    rival.close()


def transactions(stage: Stage) -> list[list[dict[str, Any]]]:
    return [request["TransactItems"] for name, request in stage.wire.requests if name == "TransactWriteItems"]


class TestTheRequestsOfASend:
    def test_a_send_is_one_strong_batch_read_and_one_transaction(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        for number in range(2):
            stage.wire.requests.clear()
            stage.committer.send(stage.draft(chat, ann, f"id-{number}"))
            (read, read_request), (write, write_request) = stage.wire.requests
            assert (read, write) == ("BatchGetItem", "TransactWriteItems")
            assert all(table["ConsistentRead"] for table in read_request["RequestItems"].values())
            assert len(write_request["TransactItems"]) == 3

    def test_only_the_first_send_into_a_chat_reads_its_counter(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        for number in range(2):
            stage.committer.send(stage.draft(chat, ann, f"id-{number}"))
        tables = [list(request["RequestItems"]) for name, request in stage.wire.requests if name == "BatchGetItem"]
        assert [[name.removeprefix("messaging_tests_") for name in names] for names in tables] == [
            ["chat_memberships", "idempotency_keys", "chat_counters"],
            ["chat_memberships", "idempotency_keys"],
        ]

    def test_49_concurrent_sends_into_a_chat_share_one_read_and_one_transaction(
        self, stage: Stage, chat: ChatId, ann: UserId
    ) -> None:
        with stage.wire.held("BatchGetItem") as arrived:
            opening = stage.committer.submit(stage.draft(chat, ann, "opening"))
            assert arrived.wait(10)
            answers = [stage.committer.submit(stage.draft(chat, ann, f"id-{number}")) for number in range(49)]
        for answer in (opening, *answers):
            answer.result(20)
        assert sorted(stage.wire.operations) == ["BatchGetItem"] * 2 + ["TransactWriteItems"] * 2
        assert [len(items) for items in transactions(stage)] == [3, 99]

    def test_33_concurrent_sends_into_33_chats_share_one_read_and_one_transaction(
        self, stage: Stage, chat: ChatId, ann: UserId
    ) -> None:
        chats = [stage.create_chat(ann) for _ in range(33)]
        with stage.wire.held("BatchGetItem") as arrived:
            opening = stage.committer.submit(stage.draft(chat, ann))
            assert arrived.wait(10)
            answers = [stage.committer.submit(stage.draft(each, ann)) for each in chats]
        for answer in (opening, *answers):
            answer.result(20)
        assert sorted(stage.wire.operations) == ["BatchGetItem"] * 2 + ["TransactWriteItems"] * 2
        assert sorted(len(items) for items in transactions(stage)) == [3, 99]

    def test_a_batch_is_read_while_another_commits_and_a_chat_is_in_one_transaction_at_a_time(
        self, stage: Stage, chat: ChatId, ann: UserId
    ) -> None:
        with stage.wire.held("TransactWriteItems") as arrived:
            first = stage.committer.submit(stage.draft(chat, ann, "first"))
            assert arrived.wait(10)
            later = [stage.committer.submit(stage.draft(chat, ann, f"later-{number}")) for number in range(FULL)]
            eventually(lambda: stage.wire.operations.count("BatchGetItem") == 2)
            assert stage.wire.operations.count("TransactWriteItems") == 1
        assert [answer.result(20).message.sequence for answer in (first, *later)] == list(range(1, FULL + 2))

    def test_a_chat_commits_again_only_when_its_last_events_are_handed_over(
        self, stage: Stage, chat: ChatId, ann: UserId
    ) -> None:
        stored_when_handed_over: list[int] = []
        stage.played.on_hand_over = lambda: stored_when_handed_over.append(len(stage.stored(chat)))
        with stage.wire.held("TransactWriteItems") as arrived:
            first = stage.committer.submit(stage.draft(chat, ann, "first"))
            assert arrived.wait(10)
            later = [stage.committer.submit(stage.draft(chat, ann, f"later-{number}")) for number in range(FULL)]
            eventually(lambda: stage.wire.operations.count("BatchGetItem") == 2)
        assert [answer.result(20).message.sequence for answer in (first, *later)] == list(range(1, FULL + 2))
        assert stored_when_handed_over == [1, FULL + 1]


class TestSeveralWriters:
    def test_a_counter_that_another_process_moved_is_read_again(
        self, stage: Stage, rival: Stage, chat: ChatId, ann: UserId
    ) -> None:
        stage.committer.send(stage.draft(chat, ann, "a-1"))
        rival.committer.send(rival.draft(chat, ann, "b-1"))
        assert stage.committer.send(stage.draft(chat, ann, "a-2")).message.sequence == 3
        assert [message.client_message_id for message in stage.stored(chat)] == ["a-1", "b-1", "a-2"]

    def test_two_processes_at_once_leave_neither_hole_nor_double(
        self, stage: Stage, rival: Stage, chat: ChatId, ann: UserId
    ) -> None:
        answers = [
            each.committer.submit(each.draft(chat, ann, f"{name}-{number}"))
            for number in range(100)
            for name, each in (("a", stage), ("b", rival))
        ]
        messages = [answer.result(20).message for answer in answers]
        stored = stage.stored(chat)
        assert [message.sequence for message in stored] == list(range(1, 201))
        assert {message.message_id for message in stored} == {message.message_id for message in messages}
        for name in "ab":
            own = [message.sequence for message in messages if message.client_message_id.startswith(name)]
            assert own == sorted(own)

    def test_a_retry_while_the_first_is_in_flight_in_another_process_is_a_duplicate(
        self, stage: Stage, rival: Stage, chat: ChatId, ann: UserId
    ) -> None:
        with rival.wire.held("TransactWriteItems") as arrived:
            slow = rival.committer.submit(rival.draft(chat, ann))
            assert arrived.wait(10)
            quick = stage.committer.send(stage.draft(chat, ann))
        late = slow.result(20)
        assert late.message == quick.message
        assert (quick.duplicate, late.duplicate) == (False, True)
        assert len(stage.stored(chat)) == 1

    def test_a_key_that_appears_between_the_parts_of_a_read_stops_the_write(
        self, stage: Stage, rival: Stage, chat: ChatId, ann: UserId
    ) -> None:
        """A batch read is no snapshot: it may miss the rival's key and see the counter that the rival moved."""
        rivals = []

        def tear(name: str, request: dict[str, Any], pass_on: Dispatch) -> dict[str, Any]:
            stage.wire.interfere = None
            before = pass_on(name, request)
            rivals.append(rival.committer.send(rival.draft(chat, ann)))
            after = pass_on(name, request)
            counters = {table: items for table, items in after["Responses"].items() if table.endswith("counters")}
            return {**before, "Responses": {**before["Responses"], **counters}}

        stage.wire.interfere = tear
        sent = stage.committer.send(stage.draft(chat, ann))
        assert (sent.message, sent.duplicate) == (rivals[0].message, True)
        assert len(stage.stored(chat)) == 1

    def test_one_chats_rival_does_not_hold_up_the_chats_beside_it(
        self, stage: Stage, rival: Stage, chat: ChatId, ann: UserId
    ) -> None:
        contested, peaceful = stage.create_chat(ann), stage.create_chat(ann)
        for each in (contested, peaceful):
            stage.committer.send(stage.draft(each, ann, "warm"))
        rival.committer.send(rival.draft(contested, ann, "rival"))
        stage.wire.requests.clear()
        with stage.wire.held("BatchGetItem") as arrived:
            opening = stage.committer.submit(stage.draft(chat, ann))
            assert arrived.wait(10)
            answers = [stage.committer.submit(stage.draft(each, ann, "next")) for each in (contested, peaceful)]
        opening.result(20)
        assert [answer.result(20).message.sequence for answer in answers] == [3, 2]
        theirs = [len(items) for items in transactions(stage) if chat not in repr(items)]
        assert theirs == [6, 3, 3]


class TestFaults:
    @pytest.mark.parametrize(
        "error",
        [
            cancelled("TransactionConflict", None, None),
            cancelled(None, None, "ThrottlingError"),
            cancelled("ProvisionedThroughputExceeded", None, None),
            cancelled(None, None, None),
            Throttled("over capacity"),
            TransactionConflict("in progress"),
            StoreUnavailable("no answer"),
        ],
        ids=["conflict", "throttled item", "throttled table", "no reasons", "throttled", "in progress", "unavailable"],
    )
    def test_a_passing_failure_is_tried_again(self, stage: Stage, chat: ChatId, ann: UserId, error: Exception) -> None:
        stage.wire.fail("TransactWriteItems", [error] * 3)
        assert stage.committer.send(stage.draft(chat, ann)).message.sequence == 1
        assert len(stage.stored(chat)) == 1

    @pytest.mark.parametrize("error", [cancelled("TransactionConflict", None, None), Throttled("over capacity")])
    def test_a_failure_that_stays_becomes_a_retryable_error_after_bounded_tries(
        self, stage: Stage, chat: ChatId, ann: UserId, error: Exception
    ) -> None:
        stage.wire.fail("TransactWriteItems", [error] * 1000)
        with pytest.raises(StoreUnavailable) as refused:
            stage.committer.send(stage.draft(chat, ann))
        assert refused.value.code == "store_unavailable"
        assert stage.wire.operations.count("TransactWriteItems") < 20
        assert stage.stored(chat) == []

    def test_a_write_whose_answer_was_lost_is_found_and_is_no_duplicate(
        self, stage: Stage, chat: ChatId, ann: UserId
    ) -> None:
        stage.wire.fail("TransactWriteItems", [StoreUnavailable("no answer")], after_sending=True)
        sent = stage.committer.send(stage.draft(chat, ann))
        assert (sent.message.sequence, sent.duplicate) == (1, False)
        assert stage.stored(chat) == [sent.message]
        assert [event.payload for event in stage.played.events] == [sent.message.to_json()]
        assert stage.committer.send(stage.draft(chat, ann, "next")).message.sequence == 2

    def test_a_lost_answer_does_not_change_the_order(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        stage.committer.send(stage.draft(chat, ann, "warm"))
        stage.wire.fail("TransactWriteItems", [StoreUnavailable("no answer")] * 2, after_sending=True)
        answers = [stage.committer.submit(stage.draft(chat, ann, f"id-{number}")) for number in range(150)]
        assert [answer.result(20).message.sequence for answer in answers] == list(range(2, 152))
        assert not any(answer.result().duplicate for answer in answers)

    def test_a_read_that_fails_is_a_retryable_error_and_stores_nothing(
        self, stage: Stage, chat: ChatId, ann: UserId
    ) -> None:
        stage.wire.fail("BatchGetItem", [StoreUnavailable("no answer")])
        with pytest.raises(StoreUnavailable):
            stage.committer.send(stage.draft(chat, ann))
        assert stage.stored(chat) == []
        assert stage.committer.send(stage.draft(chat, ann)).message.sequence == 1

    def test_a_request_that_the_store_calls_wrong_fails_at_once(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        stage.wire.fail("TransactWriteItems", [StoreRefused("validation")])
        with pytest.raises(StoreRefused):
            stage.committer.send(stage.draft(chat, ann))
        assert stage.wire.operations.count("TransactWriteItems") == 1
        assert stage.committer.send(stage.draft(chat, ann)).message.sequence == 1

    def test_an_unforeseen_failure_is_answered_and_ends_no_thread(
        self, stage: Stage, chat: ChatId, ann: UserId
    ) -> None:
        for operation in ("BatchGetItem", "TransactWriteItems"):
            stage.wire.fail(operation, [ZeroDivisionError("a bug")] * 3)
            for _ in range(3):
                with pytest.raises(Exception, match="wrong on our side"):
                    stage.committer.send(stage.draft(chat, ann))
            stage.wire.interfere = None
        assert stage.committer.send(stage.draft(chat, ann)).message.sequence == 1

    def test_a_failure_while_announcing_is_answered_and_the_chat_goes_on(
        self, stage: Stage, chat: ChatId, ann: UserId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise ZeroDivisionError("a bug")

        with monkeypatch.context() as patch:
            patch.setattr(stage.played, "hand_over", fail)
            for number in range(3):
                with pytest.raises(EventLogUnavailable):
                    stage.committer.send(stage.draft(chat, ann, f"id-{number}"))
        assert stage.committer.send(stage.draft(chat, ann, "next")).message.sequence == 4

    def test_one_that_breaks_off_half_way_answers_everyone_once(
        self, stage: Stage, chat: ChatId, ann: UserId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        heard: list[Told] = []

        def break_off(batch: Sequence[Outgoing], told: Told, **_: object) -> None:
            heard.append(told)
            told([0], None)
            raise ZeroDivisionError("a bug")

        with monkeypatch.context() as patch:
            patch.setattr(stage.played, "hand_over", break_off)
            with stage.wire.held("BatchGetItem") as arrived:
                opening = stage.committer.submit(stage.draft(chat, ann, "opening"))
                assert arrived.wait(10)
                first, second = (stage.committer.submit(stage.draft(chat, ann, each)) for each in ("one", "two"))
            assert [answer.result(5).message.sequence for answer in (opening, first)] == [1, 2]
            with pytest.raises(EventLogUnavailable):
                second.result(5)
        heard[-1]([0, 1], None)
        assert stage.committer.send(stage.draft(chat, ann, "two")).duplicate

    def test_who_sent_hears_of_it_on_the_committers_own_thread(
        self, stage: Stage, chat: ChatId, ann: UserId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads: Queue[tuple[str, int]] = Queue()

        def elsewhere(batch: Sequence[Outgoing], told: Told, **_: object) -> None:
            committing = threading.get_ident()

            def report() -> None:
                threads.put(("report", threading.get_ident()))
                told(range(len(batch)), None)

            threads.put(("commit", committing))
            threading.Thread(target=report).start()

        monkeypatch.setattr(stage.played, "hand_over", elsewhere)
        answer = stage.committer.submit(stage.draft(chat, ann))
        answer.add_done_callback(lambda _: threads.put(("answer", threading.get_ident())))
        seen = dict(threads.get(timeout=5) for _ in range(3))
        assert seen["answer"] == seen["commit"] != seen["report"]

    def test_conflicts_and_throttling_at_random_leave_no_hole_and_no_double(
        self, stage: Stage, rival: Stage, ann: UserId
    ) -> None:
        chats = [stage.create_chat(ann) for _ in range(5)]
        turn = iter(range(100_000))

        def stumble(name: str, request: dict[str, Any], pass_on: Dispatch) -> dict[str, Any]:
            number = next(turn)
            if name != "TransactWriteItems" or number % 2:
                return pass_on(name, request)
            if number % 3 == 0:
                pass_on(name, request)
                raise StoreUnavailable("the answer is lost")
            if number % 5 == 0:
                raise Throttled("over capacity")
            blamed = number % len(request["TransactItems"])
            raise cancelled(
                *("TransactionConflict" if n == blamed else None for n in range(len(request["TransactItems"])))
            )

        stage.wire.interfere = rival.wire.interfere = stumble
        answers = {
            (name, chat, number): each.committer.submit(each.draft(chat, ann, f"{name}-{number}"))
            for number in range(40)
            for chat in chats
            for name, each in (("a", stage), ("b", rival))
        }
        acknowledged = {
            place: answer.result(30).message for place, answer in answers.items() if not answer.exception(30)
        }
        stage.wire.interfere = rival.wire.interfere = None
        assert len(acknowledged) > 300
        for chat in chats:
            stored = stage.stored(chat)
            assert [message.sequence for message in stored] == list(range(1, len(stored) + 1))
            assert len({message.client_message_id for message in stored}) == len(stored)
            expected = {message.message_id for place, message in acknowledged.items() if place[1] == chat}
            assert expected <= {message.message_id for message in stored}
            assert stage.counters.find(chat) == len(stored)


class TestTheWire:
    def test_a_request_repeated_by_the_client_carries_the_same_token_and_is_done_once(
        self, stage: Stage, chat: ChatId, ann: UserId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pool = stage.database.connection._wire._pool
        exchange, tokens = pool.exchange, []

        def lose_the_first_answer(request: bytes) -> Answer:
            answer = exchange(request)
            if token := orjson.loads(request.partition(END_OF_HEAD)[2]).get("ClientRequestToken"):
                tokens.append(token)
                if len(tokens) == 1:
                    raise TimeoutError
            return answer

        monkeypatch.setattr(pool, "exchange", lose_the_first_answer)
        sent = stage.committer.send(stage.draft(chat, ann))
        assert (sent.message.sequence, sent.duplicate) == (1, False)
        assert stage.wire.operations == ["BatchGetItem", "TransactWriteItems"]
        assert (len(tokens), len(set(tokens))) == (2, 1)
        assert len(set(tokens)) == 1


class TestOverload:
    def test_a_full_queue_refuses_and_recovers(self, other_database: Database, clock: SettableClock) -> None:
        stage = Stage(other_database, clock, max_waiting=5)
        ann = stage.ids.user()
        chat = stage.create_chat(ann)
        with stage.wire.held("BatchGetItem"):
            held = [stage.committer.submit(stage.draft(chat, ann, f"id-{number}")) for number in range(5)]
            with pytest.raises(Overloaded) as refused:
                stage.committer.submit(stage.draft(chat, ann, "one-too-many"))
        assert refused.value.code == "overloaded"
        assert refused.value.retry_after
        assert [answer.result(20).message.sequence for answer in held] == [1, 2, 3, 4, 5]
        eventually(lambda: stage.committer.send(stage.draft(chat, ann, "room-again")).message.sequence == 6)
        stage.close()

    def test_a_hot_chat_does_not_starve_a_quiet_one(self, stage: Stage, ann: UserId) -> None:
        hot, quiet = stage.create_chat(ann), stage.create_chat(ann)
        answered: list[str] = []
        with stage.wire.held("BatchGetItem"):
            flood = [stage.committer.submit(stage.draft(hot, ann, f"id-{number}")) for number in range(900)]
            calm = stage.committer.submit(stage.draft(quiet, ann))
            flood[-1].add_done_callback(lambda _: answered.append("hot"))
            calm.add_done_callback(lambda _: answered.append("quiet"))
        for answer in (calm, *flood):
            answer.result(30)
        assert answered[0] == "quiet"


class TestShutdown:
    def test_closing_finishes_what_it_holds_and_takes_no_more(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        answers = [stage.committer.submit(stage.draft(chat, ann, f"id-{number}")) for number in range(120)]
        stage.committer.close()
        assert [answer.result(0).message.sequence for answer in answers] == list(range(1, 121))
        with pytest.raises(Overloaded):
            stage.committer.submit(stage.draft(chat, ann, "late"))

    def test_what_cannot_be_finished_in_time_is_refused_and_may_be_sent_again(
        self, stage: Stage, chat: ChatId, ann: UserId
    ) -> None:
        with stage.wire.held("TransactWriteItems") as arrived:
            committing = stage.committer.submit(stage.draft(chat, ann, "committing"))
            assert arrived.wait(10)
            waiting = stage.committer.submit(stage.draft(chat, ann, "waiting"))
            closing = threading.Thread(target=stage.committer.close, kwargs={"timeout": 0.1})
            closing.start()
            assert isinstance(waiting.exception(20), Overloaded)
        assert committing.result(20).message.sequence == 1
        closing.join(20)
        assert [message.client_message_id for message in stage.stored(chat)] == ["committing"]

    def test_a_committer_that_never_worked_has_no_threads_to_wait_for(self, stage: Stage) -> None:
        stage.committer.close()
        stage.committer.close()
        assert stage.committer._own_loop is None


class TestReadingOnesWrites:
    def test_an_acknowledged_message_is_in_the_next_read(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        for number in range(1, 21):
            sent = stage.committer.send(stage.draft(chat, ann, f"id-{number}"))
            page = stage.history.page(chat, ann, Window(after=number - 1))
            assert page.messages == (sent.message,)
            assert page.latest_sequence == number
