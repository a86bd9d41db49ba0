"""The group committer under load, contention, faults and shutdown."""

import asyncio
import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from queue import Queue
from typing import Any

import orjson
import pytest
from prometheus_client import REGISTRY

from foundation.kernel.errors import Overloaded
from foundation.kernel.ids import ChatId, MessageId, UserId
from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb import Database
from foundation.stores.errors import EventLogUnavailable, StoreRefused, StoreUnavailable, Throttled, TransactionConflict
from foundation.stores.kafka import OnDelivered, Outgoing
from messaging.domain import Draft, Sent
from messaging.services import committer
from messaging.services.committer import CONTENTION_RETRIES
from messaging.services.history import Window
from messaging.services.queues import FULL_BATCH, GUEST, Path, fallback
from tests.doubles import SettableClock, eventually
from tests.integration.messaging.services import Call, Services, cancelled

TAKEN_BACK = fallback("left")


class FixedPause(RetryPolicy):
    """The same pause after every attempt."""

    def __init__(self, pause: float) -> None:
        super().__init__(first_pause=pause, longest_pause=pause)

    def pause(self, attempt: int) -> float:
        return self.longest_pause


def transactions(services: Services) -> list[list[dict[str, Any]]]:
    return [request["TransactItems"] for name, request in services.wire.requests if name == "TransactWriteItems"]


class TestTheRequestsOfASend:
    def test_a_send_is_one_strong_batch_read_and_one_transaction(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        for number in range(2):
            services.wire.requests.clear()
            services.send(services.draft(chat, ann, f"id-{number}"))
            (read, read_request), (write, write_request) = services.wire.requests
            assert (read, write) == ("BatchGetItem", "TransactWriteItems")
            assert all(table["ConsistentRead"] for table in read_request["RequestItems"].values())
            assert len(write_request["TransactItems"]) == 3

    def test_only_the_first_send_into_a_chat_reads_its_counter(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        for number in range(2):
            services.send(services.draft(chat, ann, f"id-{number}"))
        tables = [list(request["RequestItems"]) for name, request in services.wire.requests if name == "BatchGetItem"]
        assert [[name.removeprefix("messaging_tests_") for name in names] for names in tables] == [
            ["chat_memberships", "idempotency_keys", "chat_counters"],
            ["chat_memberships", "idempotency_keys"],
        ]

    def test_49_concurrent_sends_into_a_chat_share_one_read_and_one_transaction(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        with services.wire.held("BatchGetItem") as arrived:
            opening = services.submit(services.draft(chat, ann, "opening"))
            assert arrived.wait(10)
            answers = [services.submit(services.draft(chat, ann, f"id-{number}")) for number in range(49)]
        for answer in (opening, *answers):
            answer.result(20)
        assert sorted(services.wire.operations) == ["BatchGetItem"] * 2 + ["TransactWriteItems"] * 2
        assert [len(items) for items in transactions(services)] == [3, 99]

    def test_33_concurrent_sends_into_33_chats_share_one_read_and_one_transaction(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        chats = [services.create_chat(ann) for _ in range(33)]
        with services.wire.held("BatchGetItem") as arrived:
            opening = services.submit(services.draft(chat, ann))
            assert arrived.wait(10)
            answers = [services.submit(services.draft(each, ann)) for each in chats]
        for answer in (opening, *answers):
            answer.result(20)
        assert sorted(services.wire.operations) == ["BatchGetItem"] * 2 + ["TransactWriteItems"] * 2
        assert sorted(len(items) for items in transactions(services)) == [3, 99]

    def test_a_batch_is_read_while_another_commits_and_a_chat_is_in_one_transaction_at_a_time(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        with services.wire.held("TransactWriteItems") as arrived:
            first = services.submit(services.draft(chat, ann, "first"))
            assert arrived.wait(10)
            later = [services.submit(services.draft(chat, ann, f"later-{number}")) for number in range(FULL_BATCH)]
            eventually(lambda: services.wire.operations.count("BatchGetItem") == 2)
            assert services.wire.operations.count("TransactWriteItems") == 1
        assert [answer.result(20).message.sequence for answer in (first, *later)] == list(range(1, FULL_BATCH + 2))

    def test_a_chat_commits_again_only_when_its_last_events_are_published(
        self, services: Services, other_process: Services, chat: ChatId, ann: UserId
    ) -> None:
        stored_when_published: list[int] = []
        services.fake_producer.on_publish = lambda: stored_when_published.append(len(other_process.stored(chat)))
        with services.wire.held("TransactWriteItems") as arrived:
            first = services.submit(services.draft(chat, ann, "first"))
            assert arrived.wait(10)
            later = [services.submit(services.draft(chat, ann, f"later-{number}")) for number in range(FULL_BATCH)]
            eventually(lambda: services.wire.operations.count("BatchGetItem") == 2)
        assert [answer.result(20).message.sequence for answer in (first, *later)] == list(range(1, FULL_BATCH + 2))
        assert stored_when_published == [1, FULL_BATCH + 1]


class TestSeveralWriters:
    def test_a_counter_that_another_process_moved_is_read_again(
        self, services: Services, other_process: Services, chat: ChatId, ann: UserId
    ) -> None:
        services.send(services.draft(chat, ann, "a-1"))
        other_process.send(other_process.draft(chat, ann, "b-1"))
        assert services.send(services.draft(chat, ann, "a-2")).message.sequence == 3
        assert [message.client_message_id for message in services.stored(chat)] == ["a-1", "b-1", "a-2"]

    def test_two_processes_at_once_leave_neither_gap_nor_duplicate(
        self, database: Database, other_database: Database, clock: SettableClock, chat: ChatId, ann: UserId
    ) -> None:
        with (
            closing(Services(database, clock, contention_retry=CONTENTION_RETRIES)) as one,
            closing(Services(other_database, clock, contention_retry=CONTENTION_RETRIES)) as other,
        ):
            answers = [
                each.submit(each.draft(chat, ann, f"{name}-{number}"))
                for number in range(100)
                for name, each in (("a", one), ("b", other))
            ]
            messages = [answer.result(20).message for answer in answers]
            stored = one.stored(chat)
        assert [message.sequence for message in stored] == list(range(1, 201))
        assert {message.message_id for message in stored} == {message.message_id for message in messages}
        for name in "ab":
            own = [message.sequence for message in messages if message.client_message_id.startswith(name)]
            assert own == sorted(own)

    def test_a_retry_while_the_first_is_in_flight_in_another_process_is_a_duplicate(
        self, services: Services, other_process: Services, chat: ChatId, ann: UserId
    ) -> None:
        with other_process.wire.held("TransactWriteItems") as arrived:
            slow = other_process.submit(other_process.draft(chat, ann))
            assert arrived.wait(10)
            quick = services.send(services.draft(chat, ann))
        late = slow.result(20)
        assert late.message == quick.message
        assert (quick.duplicate, late.duplicate) == (False, True)
        assert len(services.stored(chat)) == 1

    @pytest.mark.parametrize("count", [2, FULL_BATCH + 1])
    def test_what_a_former_home_failed_is_not_stored_behind_what_it_stored(
        self, services: Services, other_process: Services, chat: ChatId, ann: UserId, count: int
    ) -> None:
        handed = handed_over(services, chat, ann, count)
        other_process.run(commit_tried(other_process, handed[-1:]))
        *failed, stored = services.run(commit_tried(services, handed))
        assert {type(each) for each in failed} == {StoreUnavailable}
        assert isinstance(stored, Sent)
        assert [message.client_message_id for message in services.stored(chat)] == [f"id-{count - 1}"]
        assert services.send(handed[0][0]).message.sequence == 2

    def test_a_draft_of_another_process_is_not_failed_for_one_that_it_does_not_follow(
        self, services: Services, other_process: Services, chat: ChatId, ann: UserId
    ) -> None:
        """Its sender has two connections, at different processes."""
        handed = handed_over(services, chat, ann, 2)
        other_process.run(commit_tried(other_process, handed[1:]))
        sent = services.run(commit_tried(services, handed, GUEST))
        assert [each.message.sequence for each in sent if isinstance(each, Sent)] == [2, 1]

    def test_what_a_former_home_has_just_stored_is_found_though_a_batch_read_misses_its_key(
        self, services: Services, other_process: Services, chat: ChatId, ann: UserId
    ) -> None:
        handed = handed_over(services, chat, ann, 2)
        other_process.run(commit_tried(other_process, handed))

        async def miss(name: str, request: dict[str, Any], send: Call) -> dict[str, Any]:
            services.wire.intercept = None
            answer = await send(name, request)
            found = {
                table: [item for item in items if item.get("client_message_id") != {"S": "id-0"}]
                for table, items in answer["Responses"].items()
            }
            return {**answer, "Responses": found}

        services.wire.intercept = miss
        sent = services.run(commit_tried(services, handed))
        assert [each.message.sequence for each in sent if isinstance(each, Sent)] == [1, 2]

    def test_a_key_that_appears_during_a_batch_read_stops_the_write(
        self, services: Services, other_process: Services, chat: ChatId, ann: UserId
    ) -> None:
        """A batch read is no snapshot: it may miss the other's key and see the counter that the other advanced."""
        first = []

        async def read_twice(name: str, request: dict[str, Any], send: Call) -> dict[str, Any]:
            services.wire.intercept = None
            before = await send(name, request)
            first.append(await asyncio.to_thread(other_process.send, other_process.draft(chat, ann)))
            after = await send(name, request)
            counters = {table: items for table, items in after["Responses"].items() if table.endswith("counters")}
            return {**before, "Responses": {**before["Responses"], **counters}}

        services.wire.intercept = read_twice
        sent = services.send(services.draft(chat, ann))
        assert (sent.message, sent.duplicate) == (first[0].message, True)
        assert len(services.stored(chat)) == 1

    def test_a_conflict_in_one_chat_does_not_hold_up_the_others_of_its_transaction(
        self, services: Services, other_process: Services, chat: ChatId, ann: UserId
    ) -> None:
        contested, uncontested = services.create_chat(ann), services.create_chat(ann)
        for each in (contested, uncontested):
            services.send(services.draft(each, ann, "warm"))
        other_process.send(other_process.draft(contested, ann, "other"))
        services.wire.requests.clear()
        with services.wire.held("BatchGetItem") as arrived:
            opening = services.submit(services.draft(chat, ann))
            assert arrived.wait(10)
            answers = [services.submit(services.draft(each, ann, "next")) for each in (contested, uncontested)]
        opening.result(20)
        assert [answer.result(20).message.sequence for answer in answers] == [3, 2]
        theirs = [len(items) for items in transactions(services) if chat not in repr(items)]
        assert theirs == [6, 3, 3]


def handed_over(services: Services, chat: ChatId, sender: UserId, count: int) -> list[tuple[Draft, MessageId]]:
    return [(services.draft(chat, sender, f"id-{number}"), services.ids.message()) for number in range(count)]


async def commit_tried(
    services: Services, drafts: list[tuple[Draft, MessageId]], path: Path = TAKEN_BACK
) -> list[Sent | BaseException]:
    """As what was handed over and taken back: the answers were lost."""
    pending = [services.committer.accept(draft, message_id) for draft, message_id in drafts]
    for each in pending:
        each.attempts, each.path = 1, path
    return await asyncio.gather(*(each.future for each in pending), return_exceptions=True)


class TestChatsWithAnotherHome:
    def test_every_send_reads_counter_membership_and_key_and_commits_alone(
        self, services: Services, other_process: Services, chat: ChatId, ann: UserId
    ) -> None:
        ours, theirs = chats_by_home(services, ann, "a:1", "b:1")
        for each in (ours, theirs):
            for number in range(3):
                services.send(services.draft(each, ann, f"warm-{number}"))
        other_process.send(other_process.draft(theirs, ann, "other"))
        services.wire.requests.clear()
        answers = [services.submit(services.draft(each, ann, "next")) for each in (ours, theirs)]
        assert [answer.result(20).message.sequence for answer in answers] == [4, 5]
        assert sorted(len(items) for items in transactions(services)) == [3, 3]
        (read,) = [
            request for name, request in services.wire.requests if name == "BatchGetItem" and theirs in str(request)
        ]
        assert sorted(name.removeprefix("messaging_tests_") for name in read["RequestItems"]) == [
            "chat_counters",
            "chat_memberships",
            "idempotency_keys",
        ]

    def test_a_chat_that_another_process_writes_is_not_shared_even_at_home(
        self, services: Services, other_process: Services, chat: ChatId, ann: UserId
    ) -> None:
        quiet = services.create_chat(ann)
        for each in (chat, quiet):
            for number in range(2):
                services.send(services.draft(each, ann, f"warm-{number}"))
        other_process.send(other_process.draft(chat, ann, "other-1"))
        services.send(services.draft(chat, ann, "finds-out"))
        other_process.send(other_process.draft(chat, ann, "other-2"))
        services.wire.requests.clear()
        answers = services.run(submit_in_a_row(services, [services.draft(each, ann, "next") for each in (chat, quiet)]))
        assert [answer.message.sequence for answer in answers] == [6, 3]
        assert [len(items) for items in transactions(services)] == [3, 3]

    def test_a_home_that_has_moved_forgets_the_counters_that_it_remembered(
        self, services: Services, other_process: Services, chat: ChatId, ann: UserId
    ) -> None:
        for number in range(3):
            services.send(services.draft(chat, ann, f"warm-{number}"))
        other_process.send(other_process.draft(chat, ann, "other"))
        services.list_homes("a:1")
        services.wire.requests.clear()
        assert services.send(services.draft(chat, ann, "next")).message.sequence == 5
        assert services.wire.operations == ["BatchGetItem", "TransactWriteItems"]

    def test_processes_that_share_every_chat_with_different_lists_leave_neither_gap_nor_duplicate(
        self, services: Services, other_process: Services, chat: ChatId, ann: UserId
    ) -> None:
        services.list_homes("a:1", "b:1")
        other_process.list_homes("b:1", "c:1")
        chats = [services.create_chat(ann) for _ in range(8)]
        processes = (("a", services), ("b", other_process))
        answers = {
            (name, each): [process.submit(process.draft(each, ann, f"{name}-{number}")) for number in range(30)]
            for each in chats
            for name, process in processes
        }
        for futures in answers.values():
            sequences = [future.result(20).message.sequence for future in futures]
            assert sequences == sorted(sequences)
        for each in chats:
            assert [message.sequence for message in services.stored(each)] == list(range(1, 61))


def chats_by_home(services: Services, member: UserId, *names: str) -> list[ChatId]:
    """A chat for each of the names in a list of homes; the first name is the process's own."""
    services.list_homes(*names)
    found: dict[str, ChatId] = {}
    while len(found) < len(names):
        chat_id = services.create_chat(member)
        found.setdefault(services.homes.find_home(chat_id) or "", chat_id)
    return [found[name] for name in names]


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
    def test_a_transient_failure_is_retried(
        self, services: Services, chat: ChatId, ann: UserId, error: Exception
    ) -> None:
        services.wire.fail("TransactWriteItems", [error] * 3)
        assert services.send(services.draft(chat, ann)).message.sequence == 1
        assert len(services.stored(chat)) == 1

    @pytest.mark.parametrize("error", [cancelled("TransactionConflict", None, None), Throttled("over capacity")])
    def test_a_failure_that_lasts_becomes_a_retryable_error_after_bounded_attempts(
        self, services: Services, chat: ChatId, ann: UserId, error: Exception
    ) -> None:
        services.wire.fail("TransactWriteItems", [error] * 1000)
        with pytest.raises(StoreUnavailable) as refused:
            services.send(services.draft(chat, ann))
        assert refused.value.code == "store_unavailable"
        assert not isinstance(refused.value, TransactionConflict)
        assert services.wire.operations.count("TransactWriteItems") < 20
        assert services.stored(chat) == []

    def test_a_write_whose_answer_was_lost_is_found_and_is_no_duplicate(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        services.wire.fail("TransactWriteItems", [StoreUnavailable("no answer")], after_sending=True)
        sent = services.send(services.draft(chat, ann))
        assert (sent.message.sequence, sent.duplicate) == (1, False)
        assert services.stored(chat) == [sent.message]
        assert [event.payload for event in services.fake_producer.events] == [sent.message.to_json()]
        assert services.send(services.draft(chat, ann, "next")).message.sequence == 2

    def test_it_is_found_also_when_the_first_reads_for_it_fail(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        """Its event would be missing until the next one of its chat."""
        services.send(services.draft(chat, ann, "warm"))
        errors: dict[str, list[Exception]] = {
            "TransactWriteItems": [StoreUnavailable("no answer")],
            "BatchGetItem": [StoreUnavailable("no answer"), Throttled("over capacity")],
        }

        async def lose(name: str, request: dict[str, Any], send: Call) -> dict[str, Any]:
            answer = await send(name, request)
            if errors[name] and len(errors["TransactWriteItems"]) == (name == "TransactWriteItems"):
                raise errors[name].pop(0)
            return answer

        services.wire.intercept = lose
        sent = services.send(services.draft(chat, ann))
        assert (sent.message.sequence, sent.duplicate, errors["BatchGetItem"]) == (2, False, [])
        assert services.fake_producer.events[-1].payload == sent.message.to_json()

    def test_a_lost_answer_does_not_change_the_order(self, services: Services, chat: ChatId, ann: UserId) -> None:
        services.send(services.draft(chat, ann, "warm"))
        services.wire.fail("TransactWriteItems", [StoreUnavailable("no answer")] * 2, after_sending=True)
        answers = [services.submit(services.draft(chat, ann, f"id-{number}")) for number in range(150)]
        assert [answer.result(20).message.sequence for answer in answers] == list(range(2, 152))
        assert not any(answer.result().duplicate for answer in answers)

    def test_a_read_that_fails_is_a_retryable_error_and_stores_nothing(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        services.wire.fail("BatchGetItem", [StoreUnavailable("no answer")])
        with pytest.raises(StoreUnavailable):
            services.send(services.draft(chat, ann))
        assert services.stored(chat) == []
        assert services.send(services.draft(chat, ann)).message.sequence == 1

    def test_a_request_that_the_store_refuses_fails_at_once(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        services.wire.fail("TransactWriteItems", [StoreRefused("validation")])
        with pytest.raises(StoreRefused):
            services.send(services.draft(chat, ann))
        assert services.wire.operations.count("TransactWriteItems") == 1
        assert services.send(services.draft(chat, ann)).message.sequence == 1

    def test_a_chat_in_backoff_is_tried_again_though_another_ones_backoff_ends_first_with_nothing_to_do(
        self, other_database: Database, clock: SettableClock
    ) -> None:
        with closing(Services(other_database, clock, contention_retry=FixedPause(0.2))) as services:
            ann = services.ids.user()
            contended, refused = services.create_chat(ann), services.create_chat(ann)
            services.wire.fail("TransactWriteItems", [TransactionConflict("in progress"), StoreRefused("validation")])
            answer = services.submit(services.draft(contended, ann))
            eventually(lambda: len(transactions(services)) == 1)
            with pytest.raises(StoreRefused):
                services.send(services.draft(refused, ann))
            assert answer.result(10).message.sequence == 1

    def test_an_unexpected_exception_is_answered_and_the_committer_goes_on(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        for operation in ("BatchGetItem", "TransactWriteItems"):
            services.wire.fail(operation, [ZeroDivisionError("a bug")] * 3)
            for _ in range(3):
                with pytest.raises(Exception, match="wrong on our side"):
                    services.send(services.draft(chat, ann))
            services.wire.intercept = None
        assert services.send(services.draft(chat, ann)).message.sequence == 1

    def test_an_unexpected_exception_while_publishing_is_answered_and_the_chat_goes_on(
        self, services: Services, chat: ChatId, ann: UserId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise ZeroDivisionError("a bug")

        with monkeypatch.context() as patch:
            patch.setattr(services.fake_producer, "publish", fail)
            for number in range(3):
                with pytest.raises(EventLogUnavailable):
                    services.send(services.draft(chat, ann, f"id-{number}"))
        assert services.send(services.draft(chat, ann, "next")).message.sequence == 4

    def test_an_exception_after_the_first_report_answers_every_sender_once(
        self, services: Services, chat: ChatId, ann: UserId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        callbacks: list[OnDelivered] = []

        def publish(batch: Sequence[Outgoing], *, on_delivered: OnDelivered) -> None:
            callbacks.append(on_delivered)
            on_delivered([0], None)
            raise ZeroDivisionError("a bug")

        with monkeypatch.context() as patch:
            patch.setattr(services.fake_producer, "publish", publish)
            with services.wire.held("BatchGetItem") as arrived:
                opening = services.submit(services.draft(chat, ann, "opening"))
                assert arrived.wait(10)
                first, second = (services.submit(services.draft(chat, ann, each)) for each in ("one", "two"))
            assert [answer.result(5).message.sequence for answer in (opening, first)] == [1, 2]
            with pytest.raises(EventLogUnavailable):
                second.result(5)
        callbacks[-1]([0, 1], None)
        assert services.send(services.draft(chat, ann, "two")).duplicate

    def test_a_delivery_report_from_another_thread_is_answered_on_the_loop(
        self, services: Services, chat: ChatId, ann: UserId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads: Queue[tuple[str, int]] = Queue()
        is_heard = threading.Event()

        def publish(batch: Sequence[Outgoing], *, on_delivered: OnDelivered) -> None:
            def report() -> None:
                is_heard.wait(5)
                threads.put(("report", threading.get_ident()))
                on_delivered(range(len(batch)), None)

            threads.put(("commit", threading.get_ident()))
            threading.Thread(target=report).start()

        monkeypatch.setattr(services.fake_producer, "publish", publish)
        answer = services.submit(services.draft(chat, ann))
        answer.add_done_callback(lambda _: threads.put(("answer", threading.get_ident())))
        is_heard.set()
        seen = dict(threads.get(timeout=5) for _ in range(3))
        assert seen["answer"] == seen["commit"] != seen["report"]

    def test_conflicts_and_throttling_at_random_leave_no_gap_and_no_duplicate(
        self, services: Services, other_process: Services, ann: UserId
    ) -> None:
        chats = [services.create_chat(ann) for _ in range(5)]
        turn = iter(range(100_000))

        async def fail_often(name: str, request: dict[str, Any], send: Call) -> dict[str, Any]:
            number = next(turn)
            if name != "TransactWriteItems" or number % 2:
                return await send(name, request)
            if number % 3 == 0:
                await send(name, request)
                raise StoreUnavailable("the answer is lost")
            if number % 5 == 0:
                raise Throttled("over capacity")
            blamed = number % len(request["TransactItems"])
            raise cancelled(
                *("TransactionConflict" if n == blamed else None for n in range(len(request["TransactItems"])))
            )

        services.wire.intercept = other_process.wire.intercept = fail_often
        answers = {
            (name, chat, number): each.submit(each.draft(chat, ann, f"{name}-{number}"))
            for number in range(40)
            for chat in chats
            for name, each in (("a", services), ("b", other_process))
        }
        acknowledged = {
            place: answer.result(30).message for place, answer in answers.items() if not answer.exception(30)
        }
        services.wire.intercept = other_process.wire.intercept = None
        assert len(acknowledged) > 300
        for chat in chats:
            stored = services.stored(chat)
            assert [message.sequence for message in stored] == list(range(1, len(stored) + 1))
            assert len({message.client_message_id for message in stored}) == len(stored)
            expected = {message.message_id for place, message in acknowledged.items() if place[1] == chat}
            assert expected <= {message.message_id for message in stored}
            assert services.counters.find(chat) == len(stored)


class TestTheWire:
    def test_a_retried_request_carries_the_same_token_and_is_executed_once(
        self, services: Services, chat: ChatId, ann: UserId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wire = services.database.on_loop.wire
        exchange, tokens = wire._exchange, []

        async def lose_the_first_answer(operation: str, body: bytes) -> dict[str, Any]:
            answer = await exchange(operation, body)
            if token := orjson.loads(body).get("ClientRequestToken"):
                tokens.append(token)
                if len(tokens) == 1:
                    raise TimeoutError
            return answer

        monkeypatch.setattr(wire, "_exchange", lose_the_first_answer)
        sent = services.send(services.draft(chat, ann))
        assert (sent.message.sequence, sent.duplicate) == (1, False)
        assert services.wire.operations == ["BatchGetItem", "TransactWriteItems"]
        assert (len(tokens), len(set(tokens))) == (2, 1)


class TestOverload:
    def test_a_full_queue_refuses_and_recovers(self, other_database: Database, clock: SettableClock) -> None:
        services = Services(other_database, clock, max_waiting=5)
        ann = services.ids.user()
        chat = services.create_chat(ann)
        with services.wire.held("BatchGetItem"):
            held = [services.submit(services.draft(chat, ann, f"id-{number}")) for number in range(5)]
            with pytest.raises(Overloaded) as refused:
                services.submit(services.draft(chat, ann, "one-too-many"))
        assert refused.value.code == "overloaded"
        assert refused.value.retry_after
        assert [answer.result(20).message.sequence for answer in held] == [1, 2, 3, 4, 5]
        assert services.send(services.draft(chat, ann, "room-again")).message.sequence == 6
        services.close()

    def test_a_chat_that_has_its_share_of_the_queue_keeps_no_other_out(
        self, services: Services, chat: ChatId, ann: UserId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(committer, "MAX_WAITING_PER_CHAT", 3)
        other = services.create_chat(ann)
        with services.wire.held("BatchGetItem"):
            held = [services.submit(services.draft(chat, ann, f"id-{number}")) for number in (1, 2, 2)]
            with pytest.raises(Overloaded):
                services.submit(services.draft(chat, ann, "one-too-many"))
            elsewhere = services.submit(services.draft(other, ann))
        assert elsewhere.result(20).message.sequence == 1
        assert [answer.result(20).message.sequence for answer in held] == [1, 2, 2]
        for number in (3, 4, 5, 6):
            assert services.send(services.draft(chat, ann, f"id-{number}")).message.sequence == number

    def test_a_hot_chat_does_not_starve_a_quiet_one(self, services: Services, ann: UserId) -> None:
        hot, quiet = services.create_chat(ann), services.create_chat(ann)
        answered: list[str] = []
        with services.wire.held("BatchGetItem"):
            flood = [services.submit(services.draft(hot, ann, f"id-{number}")) for number in range(900)]
            calm = services.submit(services.draft(quiet, ann))
            flood[-1].add_done_callback(lambda _: answered.append("hot"))
            calm.add_done_callback(lambda _: answered.append("quiet"))
        for answer in (calm, *flood):
            answer.result(30)
        assert answered[0] == "quiet"


class TestOrder:
    """A connection pipelines its frames: many drafts are submitted in one iteration of the loop."""

    @pytest.mark.parametrize("other_chats", [0, 2])
    def test_500_drafts_in_a_row_get_ascending_sequences_also_between_drafts_of_other_chats(
        self, services: Services, ann: UserId, other_chats: int
    ) -> None:
        chats = [services.create_chat(ann) for _ in range(1 + other_chats)]
        drafts = [services.draft(chat, ann, f"id-{number}") for number in range(500) for chat in chats]
        sent = services.run(submit_in_a_row(services, drafts))
        for chat in chats:
            messages = [each.message for each in sent if each.message.chat_id == chat]
            assert [message.client_message_id for message in messages] == [f"id-{number}" for number in range(500)]
            assert [message.sequence for message in messages] == list(range(1, 501))
            assert services.stored(chat) == messages
            events = [event for event in services.fake_producer.events if event.partition_key == chat]
            assert [event.payload["sequence"] for event in events] == list(range(1, 501))

    def test_drafts_that_skip_the_read_do_not_overtake_those_that_need_it(
        self, services: Services, chat: ChatId, ann: UserId, bob: UserId
    ) -> None:
        for number in range(2):
            services.send(services.draft(chat, ann, f"cached-{number}"))
        drafts = [services.draft(chat, bob if number % 5 == 3 else ann, f"id-{number}") for number in range(500)]
        sent = services.run(submit_in_a_row(services, drafts))
        assert [each.message.sequence for each in sent] == list(range(3, 503))


async def submit_in_a_row(services: Services, drafts: Iterable[Draft]) -> list[Sent]:
    return await asyncio.gather(*[services.committer.submit(draft) for draft in drafts])


class Callers:
    """Tasks on the loop that each await one `send`."""

    def __init__(self, services: Services, drafts: Sequence[Draft]) -> None:
        self._services = services

        async def start() -> list[asyncio.Task[Sent]]:
            return [asyncio.create_task(services.committer.send(draft)) for draft in drafts]

        self._tasks = services.run(start())

    def cancel(self, *positions: int) -> None:
        async def cancel() -> None:
            tasks = [self._tasks[position] for position in positions]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=10)

        self._services.run(cancel())

    def answers(self) -> list[int | type[BaseException]]:
        """The sequence of each sent message, or the class of the exception."""

        async def gather() -> list[Sent | BaseException]:
            return await asyncio.gather(*self._tasks, return_exceptions=True)

        answers = self._services.run(gather())
        return [each.message.sequence if isinstance(each, Sent) else type(each) for each in answers]


CANCELLED = asyncio.CancelledError


class TestCancelledCallers:
    @pytest.fixture(autouse=True)
    def _no_error_is_logged(self, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
        """An `InvalidStateError` in a task or in a callback would be logged."""
        yield
        assert [record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.ERROR] == []

    @pytest.mark.parametrize("operation", ["BatchGetItem", "TransactWriteItems"])
    def test_the_others_of_the_batch_get_their_answers_and_every_message_is_stored(
        self, services: Services, chat: ChatId, ann: UserId, operation: str
    ) -> None:
        with services.wire.held(operation) as arrived:
            callers = Callers(services, [services.draft(chat, ann, f"id-{number}") for number in range(6)])
            assert arrived.wait(10)
            callers.cancel(0, 3)
        assert callers.answers() == [CANCELLED, 2, 3, CANCELLED, 5, 6]
        assert services.wire.operations.count("TransactWriteItems") == 1
        assert [message.sequence for message in services.stored(chat)] == list(range(1, 7))
        assert services.send(services.draft(chat, ann, "next")).message.sequence == 7

    @pytest.mark.parametrize("operation", ["BatchGetItem", "TransactWriteItems"])
    def test_the_others_of_a_failed_batch_get_the_error(
        self, services: Services, chat: ChatId, ann: UserId, operation: str
    ) -> None:
        arrived, released = threading.Event(), threading.Event()

        async def refuse(name: str, request: dict[str, Any], send: Call) -> dict[str, Any]:
            if name != operation:
                return await send(name, request)
            arrived.set()
            assert await asyncio.to_thread(released.wait, 20)
            raise StoreRefused("validation")

        services.wire.intercept = refuse
        callers = Callers(services, [services.draft(chat, ann, f"id-{number}") for number in range(3)])
        assert arrived.wait(10)
        callers.cancel(1)
        released.set()
        assert callers.answers() == [StoreRefused, CANCELLED, StoreRefused]
        services.wire.intercept = None
        assert services.send(services.draft(chat, ann, "next")).message.sequence == 1

    @pytest.mark.parametrize("error", [None, EventLogUnavailable("Kafka did not take the event in time")])
    def test_the_others_that_wait_for_kafka_get_their_answers(
        self,
        services: Services,
        chat: ChatId,
        ann: UserId,
        monkeypatch: pytest.MonkeyPatch,
        error: EventLogUnavailable | None,
    ) -> None:
        published: Queue[OnDelivered] = Queue()
        with monkeypatch.context() as patch:
            patch.setattr(services.fake_producer, "publish", lambda _, *, on_delivered: published.put(on_delivered))
            callers = Callers(services, [services.draft(chat, ann, f"id-{number}") for number in range(3)])
            report = published.get(timeout=10)
        callers.cancel(1)
        report([0, 1, 2], error)
        assert callers.answers() == ([1, CANCELLED, 3] if error is None else [type(error), CANCELLED, type(error)])

    @pytest.mark.parametrize("position", [0, 1])
    def test_a_repeat_and_its_first_send_do_not_depend_on_each_other(
        self, services: Services, chat: ChatId, ann: UserId, position: int
    ) -> None:
        with services.wire.held("TransactWriteItems") as arrived:
            callers = Callers(services, [services.draft(chat, ann, "same") for _ in range(2)])
            assert arrived.wait(10)
            callers.cancel(position)
        assert callers.answers() == ([CANCELLED, 1] if position == 0 else [1, CANCELLED])

    def test_a_caller_that_times_out_may_send_again_with_the_same_id(
        self, services: Services, chat: ChatId, ann: UserId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with services.wire.held("TransactWriteItems"), monkeypatch.context() as patch:
            patch.setattr(committer, "SEND_TIMEOUT", 0.05)
            with pytest.raises(StoreUnavailable, match="send it again with the same id"):
                services.send(services.draft(chat, ann))
        again = services.send(services.draft(chat, ann))
        assert (again.message.sequence, again.duplicate) == (1, True)

    def test_no_cancelled_caller_is_counted_as_waiting(self, other_database: Database, clock: SettableClock) -> None:
        services = Services(other_database, clock, max_waiting=3)
        ann = services.ids.user()
        chat = services.create_chat(ann)
        for burst in range(3):
            with services.wire.held("TransactWriteItems") as arrived:
                drafts = [services.draft(chat, ann, f"{burst}-{number}") for number in range(3)]
                callers = Callers(services, drafts)
                assert arrived.wait(10)
                callers.cancel(0, 1, 2)
            eventually(lambda: REGISTRY.get_sample_value("parley_ingest_waiting_drafts") == 0)
        assert services.send(services.draft(chat, ann, "next")).message.sequence == 10
        services.close()


class TestShutdown:
    def test_close_finishes_the_pending_drafts_and_refuses_later_ones(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        async def submit_and_close() -> list[int]:
            futures = [services.committer.submit(services.draft(chat, ann, f"id-{number}")) for number in range(120)]
            await services.committer.close()
            return [future.result().message.sequence for future in futures]

        assert services.run(submit_and_close()) == list(range(1, 121))
        for late in (services.submit, services.send):
            with pytest.raises(Overloaded) as refused:
                late(services.draft(chat, ann, "late"))
            assert refused.value.retry_after
        assert len(services.stored(chat)) == 120

    def test_drafts_are_refused_while_close_waits_for_the_pending_ones(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        async def start_closing() -> asyncio.Task[None]:
            closing = asyncio.create_task(services.committer.close())
            await asyncio.sleep(0)
            return closing

        with services.wire.held("TransactWriteItems") as arrived:
            pending = services.submit(services.draft(chat, ann, "pending"))
            assert arrived.wait(10)
            closing = services.run(start_closing())
            with pytest.raises(Overloaded):
                services.submit(services.draft(chat, ann, "late"))
            assert not closing.done()
        assert pending.result(20).message.sequence == 1
        eventually(closing.done)

    def test_close_finishes_drafts_that_back_off(self, services: Services, chat: ChatId, ann: UserId) -> None:
        services.wire.fail("TransactWriteItems", [Throttled("over capacity")] * 3)
        answers = [services.submit(services.draft(chat, ann, f"id-{number}")) for number in range(3)]
        services.run(services.committer.close())
        assert [answer.result(0).message.sequence for answer in answers] == [1, 2, 3]

    def test_what_cannot_be_finished_in_time_is_refused_and_may_be_sent_again(
        self, services: Services, chat: ChatId, ann: UserId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(committer, "CLOSE_TIMEOUT", 0.1)
        with services.wire.held("TransactWriteItems") as arrived:
            committing = services.submit(services.draft(chat, ann, "committing"))
            assert arrived.wait(10)
            waiting = services.submit(services.draft(chat, ann, "waiting"))
            services.run(services.committer.close())
            assert isinstance(waiting.exception(0), Overloaded)
        assert committing.result(20).message.sequence == 1
        assert [message.client_message_id for message in services.stored(chat)] == ["committing"]

    def test_a_committer_that_never_worked_closes_at_once_and_twice(self, services: Services) -> None:
        for _ in range(2):
            services.loop.run(services.committer.close(), timeout=1)


class TestReadingOnesWrites:
    def test_an_acknowledged_message_is_in_the_next_read(self, services: Services, chat: ChatId, ann: UserId) -> None:
        for number in range(1, 21):
            sent = services.send(services.draft(chat, ann, f"id-{number}"))
            page = services.page(chat, ann, Window(after=number - 1))
            assert page.messages == (sent.message,)
            assert page.latest_sequence == number
