"""Several processes that share chats: drafts go to the homes of their chats, and whatever happens to homes, every chat
stays dense, nothing is lost or doubled, every sender gets an answer, and a sender's drafts keep their order."""

import itertools
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from time import monotonic, sleep
from typing import Any

import pytest
import redis
from prometheus_client import REGISTRY

from chats.errors import ChatNotFound
from foundation.kernel.errors import Overloaded
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import DynamoDBOptions
from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis import subscriptions
from messaging.domain import Draft, Message, Sent
from messaging.errors import ClientMessageIdConflict
from messaging.services import codec, guests
from messaging.services.envelopes import VERSION
from messaging.services.guests import Reply
from messaging.services.handover import HandOver
from messaging.stores.peer_channel import PeerChannel
from tests.doubles import eventually
from tests.integration.messaging.processes import Cluster, Process, running
from tests.redis_proxy import RedisProxy

PREFIX = "home:"


@pytest.fixture
def cluster(package_options: DynamoDBOptions, redis_url: str, redis_client: redis.Redis) -> Iterator[Cluster]:
    with running(package_options, redis_url) as cluster:
        yield cluster


def chat_of(home: Process, *members: UserId) -> ChatId:
    """A chat with this home."""
    chats = (home.create_chat(*members) for _ in itertools.count())
    return next(chat for chat in chats if home.homes.is_home(chat))


def path(name: str, reason: str = "") -> float:
    return REGISTRY.get_sample_value("parley_messages_by_path_total", {"path": name, "reason": reason}) or 0.0


def sequence_of(message: Message) -> int:
    return message.sequence


PIPELINED = 50
"""Drafts of one process in one chat that wait for answers. More would pile up on a busy machine and run out of time."""


class Traffic:
    """Sends into the chats from every process, a pipelined stream of drafts for each process and chat."""

    def __init__(self, processes: Sequence[Process], chats: Sequence[ChatId], sender: UserId) -> None:
        self._processes, self._chats, self._sender = processes, chats, sender
        self._stop = threading.Event()
        self.answers: dict[tuple[str, ChatId], list[Future[Sent]]] = {}
        self._threads = [threading.Thread(target=self._send, args=[process]) for process in processes]

    def _send(self, process: Process) -> None:
        for number in itertools.count():
            for chat in self._chats:
                draft = process.draft(chat, self._sender, f"{process.gateway_id}-{number}")
                answers = self.answers.setdefault((process.gateway_id, chat), [])
                answers.append(process.submit(draft))
                wait(answers[-PIPELINED : 1 - PIPELINED], 30)
            if self._stop.wait(0.005):
                return

    def during(self, trouble: Callable[[], object], *, times: int = 1, every: float = 0.0) -> None:
        """Send while something happens a few times."""
        for thread in self._threads:
            thread.start()
        try:
            for _ in range(times):
                sleep(every)
                trouble()
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()

    def require_everything_in_order(self, reader: Process) -> None:
        """Every draft is answered with a message of its own, and the chats hold these and nothing else, dense."""
        answered: dict[ChatId, list[Message]] = {chat: [] for chat in self._chats}
        for (_, chat), futures in self.answers.items():
            sent = [future.result(30) for future in futures]
            assert not any(each.duplicate for each in sent)
            messages = [each.message for each in sent]
            assert messages == sorted(messages, key=sequence_of)
            answered[chat] += messages
        for chat, messages in answered.items():
            stored = reader.stored(chat)
            assert list(map(sequence_of, stored)) == list(range(1, len(stored) + 1))
            assert sorted(messages, key=sequence_of) == stored


class TestHandingOver:
    def test_a_draft_is_committed_by_the_home_of_its_chat(self, cluster: Cluster) -> None:
        here, home = cluster.start(2)
        ann = here.ids.user()
        chat = chat_of(home, ann)
        handed = path("handed")
        sent = [here.send(here.draft(chat, ann, f"id-{number}")) for number in range(5)]
        assert [each.message.sequence for each in sent] == [1, 2, 3, 4, 5]
        assert here.wire.operations == []
        assert here.stored(chat) == [each.message for each in sent]
        assert path("handed") == handed + 5

    def test_pipelined_drafts_keep_their_order_and_share_transactions(self, cluster: Cluster) -> None:
        here, home = cluster.start(2)
        ann = here.ids.user()
        chat = chat_of(home, ann)
        answers = [here.submit(here.draft(chat, ann, f"id-{number}")) for number in range(300)]
        assert [answer.result(20).message.sequence for answer in answers] == list(range(1, 301))
        # How many share one depends on how busy the machine is.
        assert home.wire.operations.count("TransactWriteItems") < 250

    def test_a_repetition_gives_the_same_message_from_any_process(self, cluster: Cluster) -> None:
        processes = cluster.start(3)
        ann = processes[0].ids.user()
        chat = processes[0].create_chat(ann)
        sent = [each.send(each.draft(chat, ann)) for each in processes]
        assert len({each.message.message_id for each in sent}) == 1
        assert [each.duplicate for each in sent] == [False, True, True]

    def test_errors_are_passed_on_with_their_details(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        here, home = cluster.start(2)
        ann, eve = here.ids.user(), here.ids.user()
        chat = chat_of(home, ann)
        here.send(here.draft(chat, ann, "taken", "one text"))
        with pytest.raises(ClientMessageIdConflict):
            here.send(here.draft(chat, ann, "taken", "another text"))
        with pytest.raises(ChatNotFound):
            here.send(here.draft(chat, eve))
        monkeypatch.setattr(home.committer, "_max_waiting", 0)
        with pytest.raises(Overloaded) as overloaded:
            here.send(here.draft(chat, ann, "next"))
        assert overloaded.value.retry_after == 1.0
        assert len(here.stored(chat)) == 1

    def test_events_of_every_chat_are_in_the_order_of_their_sequences(self, cluster: Cluster) -> None:
        processes = cluster.start(3)
        ann = processes[0].ids.user()
        chats = [processes[0].create_chat(ann) for _ in range(6)]
        traffic = Traffic(processes, chats, ann)
        traffic.during(lambda: None, times=1, every=1.0)
        traffic.require_everything_in_order(processes[0])
        for chat in chats:
            sequences = cluster.log.first_occurrences(chat)
            assert sequences == list(range(1, len(sequences) + 1))


class TestAStoppedKafka:
    """Stored is stored: drafts that wait for Kafka hold up none behind them."""

    BATCHES = 40
    """Far more than may be under way at a time."""

    def submit_batches(self, here: Process, chat: ChatId, sender: UserId) -> list[Future[Sent]]:
        """One draft in each, as they leave at once."""
        answers = []
        for number in range(self.BATCHES):
            answers.append(here.submit(here.draft(chat, sender, f"id-{number}")))
            eventually(lambda: len(here.stored(chat)) == len(answers))
        return answers

    def test_the_home_stores_what_is_handed_over_and_answers_when_kafka_is_back(self, cluster: Cluster) -> None:
        here, home = cluster.start(2)
        ann = here.ids.user()
        chat = chat_of(home, ann)
        handed = path("handed")
        cluster.log.stop()
        answers = self.submit_batches(here, chat, ann)
        assert not any(answer.done() for answer in answers)
        cluster.log.start()
        assert [answer.result(20).message.sequence for answer in answers] == list(range(1, self.BATCHES + 1))
        assert path("handed") > handed

    def test_what_is_stored_at_a_home_that_leaves_is_answered_here(self, cluster: Cluster) -> None:
        here, home = cluster.start(2)
        ann = here.ids.user()
        chat = chat_of(home, ann)
        cluster.log.stop()
        answers = self.submit_batches(here, chat, ann)
        here.believe_in(here.gateway_id)
        cluster.log.start()
        assert [answer.result(20).message.sequence for answer in answers] == list(range(1, self.BATCHES + 1))
        assert len(here.stored(chat)) == self.BATCHES

    def test_homes_that_tell_nothing_before_their_answers(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As those of the former version: what they have not answered is answered when Kafka is back."""
        monkeypatch.setattr(guests, "STORED_AFTER", 600.0)
        here, home = cluster.start(2)
        ann = here.ids.user()
        chat = chat_of(home, ann)
        cluster.log.stop()
        answers = [here.submit(here.draft(chat, ann, f"id-{number}")) for number in range(self.BATCHES)]
        eventually(lambda: bool(here.stored(chat)))
        cluster.log.start()
        assert [answer.result(20).message.sequence for answer in answers] == list(range(1, self.BATCHES + 1))

    def test_processes_that_ignore_what_homes_tell_before_their_answers(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As those of the former version."""
        monkeypatch.setattr(HandOver, "on_stored", lambda *_: None)
        here, home = cluster.start(2)
        ann = here.ids.user()
        chat = chat_of(home, ann)
        cluster.log.stop()
        answers = [here.submit(here.draft(chat, ann, f"id-{number}")) for number in range(self.BATCHES)]
        eventually(lambda: bool(here.stored(chat)))
        cluster.log.start()
        assert [answer.result(20).message.sequence for answer in answers] == list(range(1, self.BATCHES + 1))


class TestTrouble:
    """Homes move, lie, vanish and are impersonated, in mid-traffic."""

    def during_traffic(
        self, cluster: Cluster, trouble: Callable[[], object], *, times: int, every: float, chats: int = 6
    ) -> Traffic:
        processes = cluster.processes
        ann = processes[0].ids.user()
        traffic = Traffic(processes, [processes[0].create_chat(ann) for _ in range(chats)], ann)
        traffic.during(trouble, times=times, every=every)
        traffic.require_everything_in_order(processes[0])
        return traffic

    def test_homes_that_move_all_the_time(self, cluster: Cluster) -> None:
        first, second, third = cluster.start(3)
        everybody = [process.gateway_id for process in cluster.processes]
        orders = itertools.cycle([everybody, everybody[:1], everybody[1:], everybody[:2], everybody[2:]])

        def move() -> None:
            listed = next(orders)
            for process in (first, second, third):
                process.believe_in(*listed)

        self.during_traffic(cluster, move, times=10, every=0.15)

    def test_processes_with_different_lists(self, cluster: Cluster) -> None:
        """Each believes that the other is the home, or itself, or nobody at all."""
        first, second, third = cluster.start(3)

        def differ() -> None:
            first.believe_in(second.gateway_id)
            second.believe_in(third.gateway_id, first.gateway_id)
            third.believe_in()

        differ()
        self.during_traffic(cluster, differ, times=2, every=0.6)

    def test_a_redis_that_is_wiped(self, cluster: Cluster, redis_client: redis.Redis) -> None:
        cluster.start(3)
        self.during_traffic(cluster, redis_client.flushall, times=4, every=0.3)

    def test_subscriptions_that_break(self, cluster: Cluster, redis_client: redis.Redis) -> None:
        cluster.start(3)
        self.during_traffic(cluster, lambda: redis_client.client_kill_filter(_type="pubsub"), times=4, every=0.3)
        cluster.wait_until_homes_agree()

    def test_a_subscription_that_has_gone_silent(
        self, cluster: Cluster, redis_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its process stays in the list, and no answer reaches it."""
        monkeypatch.setattr(subscriptions, "CHECK_EVERY", 0.5)
        with RedisProxy(redis_url).listening() as proxy:
            here = cluster.start(1, redis_url=proxy.url)[0]
            home = cluster.start()[1]
            ann = here.ids.user()
            chat = chat_of(home, ann)
            assert proxy.deafen_subscribers()
            assert here.submit(here.draft(chat, ann)).result(20).message.sequence == 1
            cluster.stop(here)

    def test_envelopes_that_are_replayed_and_forged(self, cluster: Cluster, redis_client: redis.Redis) -> None:
        cluster.start(3)
        tap = redis_client.pubsub()  # type: ignore[no-untyped-call]
        tap.psubscribe(f"{PREFIX}*")
        rng = random.Random(7)

        def interfere() -> None:
            deadline = monotonic() + 0.3
            while monotonic() < deadline:
                message = tap.get_message(timeout=0.01)
                if message is None or message["type"] != "pmessage":
                    continue
                channel, payload = message["channel"], bytearray(message["data"])
                redis_client.publish(channel, bytes(payload))
                payload[rng.randrange(len(payload))] ^= 1
                redis_client.publish(channel, bytes(payload))

        refused = [refusals("replayed"), refusals("forged")]
        self.during_traffic(cluster, interfere, times=3, every=0.05)
        tap.close()
        assert refusals("replayed") > refused[0]
        assert refusals("forged") > refused[1]

    def test_a_process_of_each_version_of_the_hand_over(self, cluster: Cluster) -> None:
        """What cannot be read is not committed at the home, but by who has it."""
        old = cluster.start(1)[0]
        new = cluster.start(1, version=VERSION + 1)[1]
        ann = old.ids.user()
        handed, taken_back = path("handed"), path("fallback", "not_home")
        traffic = Traffic([old, new], [chat_of(old, ann), chat_of(new, ann)], ann)
        traffic.during(lambda: None, every=0.5)
        traffic.require_everything_in_order(old)
        assert path("handed") == handed
        assert path("fallback", "not_home") > taken_back

    def test_processes_of_one_version_hand_over_beside_one_of_another(self, cluster: Cluster) -> None:
        first, second = cluster.start(2)
        new = cluster.start(1, version=VERSION + 1)[2]
        ann = first.ids.user()
        chats = [chat_of(home, ann) for home in (first, second, new)]
        handed, taken_back = path("handed"), path("fallback", "not_home")
        traffic = Traffic([first, second, new], chats, ann)
        traffic.during(lambda: None, every=0.5)
        traffic.require_everything_in_order(first)
        assert path("handed") > handed
        assert path("fallback", "not_home") > taken_back

    def test_drafts_that_homes_cannot_read(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        """As when they are of a newer version. What follows them does not overtake them."""
        here, home, _ = cluster.start(3)
        read = codec.draft_from_wire

        def read_most(value: object) -> Draft:
            draft = read(value)
            if int(draft.client_message_id.rpartition("-")[2]) % 5 == 0:
                raise codec.UnknownForm
            return draft

        monkeypatch.setattr(codec, "draft_from_wire", read_most)
        # One by one: on a busy machine every batch of the traffic below has a draft that cannot be read.
        ann = here.ids.user()
        chat = chat_of(home, ann)
        handed, taken_back = path("handed"), path("fallback", "not_home")
        for number in range(1, 6):
            here.send(here.draft(chat, ann, f"id-{number}"))
        assert path("handed") == handed + 4
        assert path("fallback", "not_home") == taken_back + 1
        self.during_traffic(cluster, lambda: None, times=1, every=0.5)

    def test_a_home_that_accepts_no_batch_after_another(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As the first version, which read `drafts` and nothing else, beside one of this version."""
        old, new = cluster.start(2)
        guests = old.peers._guests
        receive = guests.receive

        def receive_first(batch_id: str, parcel: Mapping[str, Any], *, reply: Reply) -> None:
            receive(batch_id, {"drafts": parcel.get("drafts")}, reply=reply)

        monkeypatch.setattr(guests, "receive", receive_first)
        ann = old.ids.user()
        chat = chat_of(old, ann)
        handed, taken_back = path("handed"), path("fallback", "not_home")
        # So many that they leave in batches of which each follows another.
        answers = [new.submit(new.draft(chat, ann, f"id-{number}")) for number in range(300)]
        assert [answer.result(20).message.sequence for answer in answers] == list(range(1, 301))
        assert path("fallback", "not_home") > taken_back
        traffic = Traffic([old, new], [chat_of(old, ann), chat_of(new, ann)], ann)
        traffic.during(lambda: None, every=0.5)
        traffic.require_everything_in_order(new)
        assert path("handed") > handed

    def test_envelopes_that_are_lost(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        """Or may have been: who sent one cannot tell."""
        cluster.start(3)
        publish, rng = PeerChannel.publish, random.Random(7)

        async def publish_most(self: PeerChannel, name: str, payload: bytes) -> int:
            chance = rng.random()
            if chance < 0.05:
                raise StoreUnavailable("lost")
            reached = await publish(self, name, payload)
            if chance < 0.1:
                raise StoreUnavailable("lost, perhaps")
            return reached

        monkeypatch.setattr(PeerChannel, "publish", publish_most)
        handed, taken_back = path("handed"), path("fallback", "unreachable")
        self.during_traffic(cluster, lambda: None, times=1, every=1.0)
        monkeypatch.undo()
        assert path("handed") > handed
        assert path("fallback", "unreachable") > taken_back

    def test_a_process_that_comes_and_one_that_leaves(self, cluster: Cluster) -> None:
        first, second = cluster.start(2)
        ann = first.ids.user()
        traffic = Traffic([first, second], [first.create_chat(ann) for _ in range(6)], ann)

        def come_and_leave() -> None:
            third = cluster.start()[-1]
            handed = path("guest")
            eventually(lambda: path("guest") > handed + 10)
            cluster.stop(third)

        traffic.during(come_and_leave, times=2, every=0.1)
        traffic.require_everything_in_order(first)


class TestKeys:
    def test_a_process_with_the_next_key_and_one_with_the_former_only(self, cluster: Cluster) -> None:
        """Nobody waits for an answer to what cannot be verified."""
        old = cluster.start(1, secret="former")[0]
        new = cluster.start(1, secret="next", former_secrets=["former"])[1]
        ann = old.ids.user()
        chats = [chat_of(old, ann), chat_of(new, ann)]
        traffic = Traffic([old, new], chats, ann)
        handed = path("handed")
        traffic.during(lambda: None, every=0.3)
        traffic.require_everything_in_order(old)
        assert path("handed") > handed

    def test_processes_with_different_secrets_hand_nothing_over(self, cluster: Cluster) -> None:
        one = cluster.start(1, secret="one")[0]
        other = cluster.start(1, secret="other")[1]
        ann = one.ids.user()
        handed = path("handed")
        traffic = Traffic([one, other], [chat_of(one, ann), chat_of(other, ann)], ann)
        traffic.during(lambda: None, every=0.3)
        traffic.require_everything_in_order(one)
        assert path("handed") == handed


def refusals(reason: str) -> float:
    return REGISTRY.get_sample_value("parley_handover_refused_total", {"reason": reason}) or 0.0
