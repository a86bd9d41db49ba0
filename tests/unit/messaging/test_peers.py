"""The connection between processes, on a channel in memory that can lose things."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from time import monotonic

import orjson
import pytest
from prometheus_client import REGISTRY

from foundation.stores.errors import StoreUnavailable
from messaging.services import peers
from messaging.services.envelopes import MAX_BYTES, VERSION, Envelopes
from messaging.services.guests import Guests
from messaging.services.handover import HandOver, batch_parcel
from messaging.services.homes import HomeRegistration, Homes
from messaging.services.peers import ANSWER_TRIES, MAX_AGE, Link, Parcel, Peers
from tests.doubles import SettableClock
from tests.unit.messaging.test_guests import FakeCommitter as HomeCommitter
from tests.unit.messaging.test_guests import drafts, sent

ENVELOPES = Envelopes("secret")
NEXT_ENVELOPES = Envelopes("secret", version=VERSION + 1)


class FakeChannel:
    def __init__(self) -> None:
        self.subscribers: dict[str, asyncio.Queue[bytes | None]] = {}
        self.published: list[tuple[str, bytes]] = []
        self.is_away = False
        self.error: Exception | None = None
        # How many of the next envelopes reach nobody.
        self.lost = 0

    async def listen(self, name: str) -> AsyncIterator[bytes | None]:
        queue = self.subscribers[name] = asyncio.Queue()
        try:
            yield None
            while (payload := await queue.get()) is not None:
                yield payload
            raise StoreUnavailable("The subscription broke")
        finally:
            del self.subscribers[name]

    async def publish(self, name: str, payload: bytes) -> int:
        await asyncio.sleep(0)
        if self.is_away:
            raise StoreUnavailable("away")
        if self.error is not None:
            raise self.error
        self.published.append((name, payload))
        if self.lost:
            self.lost -= 1
            return 0
        if name not in self.subscribers:
            return 0
        self.subscribers[name].put_nowait(payload)
        return 1


class FakeHandOver(HandOver):
    """Records what the connection tells."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def on_stored(self, home: str, batch_id: str) -> None:
        self.told.append(("stored", home, batch_id))

    def on_announced(self, home: str, batch_id: str, answers: object) -> None:
        self.told.append(("announced", home, batch_id))

    def on_not_home(self, home: str, batch_id: str) -> None:
        self.told.append(("not_home", home, batch_id))

    def on_unreachable(self, batch_ids: Iterable[str]) -> None:
        self.told += [("unreachable", batch_id) for batch_id in batch_ids]

    def on_subscription_lost(self) -> None:
        self.told.append(("subscription_lost",))


class FakeList:
    def __init__(self) -> None:
        self.others: list[str] = []
        self.is_away = False

    async def refresh(self, name: str | None, *, former: Iterable[str] = ()) -> list[str]:
        if self.is_away:
            raise StoreUnavailable("away")
        return self.others if name is None else [name, *self.others]


class Process:
    def __init__(self, gateway_id: str, channel: FakeChannel, clock: SettableClock) -> None:
        self.homes, self.home_list = Homes(), FakeList()
        self.registration = HomeRegistration(self.homes, self.home_list)
        self.handover, self.committer = FakeHandOver(), HomeCommitter()
        self.peers = Peers(
            gateway_id=gateway_id,
            channel=channel,
            envelopes=ENVELOPES,
            homes=self.homes,
            registration=self.registration,
            clock=clock,
        )
        self.peers.connect(self.handover, Guests(self.committer))
        self._channel = channel
        self._gateway_id = gateway_id
        self.task = asyncio.create_task(self.peers.run())

    async def see(self, *others: "Process") -> None:
        """Know these in the list."""
        self.home_list.others = [other.name for other in others]
        await self.registration.refresh()

    def answer(self) -> None:
        for pending in self.committer.accepted:
            pending.future.set_result(sent(pending))

    @property
    def name(self) -> str:
        return next(name for name in self._channel.subscribers if name.startswith(f"{self._gateway_id}:"))


class World:
    def __init__(self) -> None:
        self.channel, self.clock = FakeChannel(), SettableClock()
        self.one, self.other = (Process(each, self.channel, self.clock) for each in ("gw-1", "gw-2"))

    async def close(self) -> None:
        self.channel.is_away = False
        for process in (self.one, self.other):
            await process.peers.close()
            await process.task

    def seal(
        self, parcel: bytes, envelopes: Envelopes = ENVELOPES, *, number: int = 1, at: float | None = None
    ) -> bytes:
        """As process one, for the other."""
        return envelopes.seal(
            sender=self.one.name,
            to=self.other.name,
            number=number,
            at=self.clock.now().timestamp() if at is None else at,
            parcels=[parcel],
        )


async def turn() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(peers, "PAUSE", (0.0, 0.0))
    world = World()
    await turn()
    yield world
    await world.close()


def batch(batch_id: str = "b", *, after: str | None = None) -> bytes:
    return batch_parcel(batch_id, [orjson.Fragment(orjson.dumps(draft)) for draft in drafts(2)], after=after)


def refusals(reason: str) -> float:
    return REGISTRY.get_sample_value("parley_handover_refused_total", {"reason": reason}) or 0.0


class TestSending:
    async def test_a_batch_arrives_and_its_answers_come_back(self, world: World) -> None:
        world.one.peers.send_batch(world.other.name, "b", batch())
        await turn()
        world.other.answer()
        await turn()
        assert world.one.handover.told == [("announced", world.other.name, "b")]

    async def test_what_gathers_while_an_envelope_is_sent_shares_the_next(self, world: World) -> None:
        for number in range(5):
            world.one.peers.send_batch(world.other.name, f"b-{number}", batch(f"b-{number}"))
            if number == 0:
                await asyncio.sleep(0)
        await turn()
        assert len(world.channel.published) == 2
        assert len(world.other.committer.accepted) == 10

    async def test_a_batch_that_reached_nobody_is_reported(self, world: World) -> None:
        world.one.peers.send_batch("gw-3:gone", "b", batch())
        await turn()
        assert world.one.handover.told == [("unreachable", "b")]

    async def test_a_batch_that_may_have_reached_nobody_is_reported_too(self, world: World) -> None:
        world.channel.is_away = True
        world.one.peers.send_batch(world.other.name, "b", batch())
        await turn()
        assert world.one.handover.told == [("unreachable", "b")]

    async def test_a_batch_after_one_that_was_lost_is_not_committed(self, world: World) -> None:
        world.channel.is_away = True
        world.one.peers.send_batch(world.other.name, "b-1", batch("b-1"))
        await asyncio.sleep(0)
        world.one.peers.send_batch(world.other.name, "b-2", batch("b-2", after="b-1"))
        await asyncio.sleep(0)
        world.channel.is_away = False
        await turn()
        assert world.other.committer.accepted == []
        assert world.one.handover.told == [("unreachable", "b-1"), ("not_home", world.other.name, "b-2")]

    async def test_an_answer_that_could_not_be_sent_ends_the_epoch(self, world: World) -> None:
        """Whoever waits for it sees the name leave the list."""
        world.one.peers.send_batch(world.other.name, "b", batch())
        await turn()
        before = world.other.name
        world.channel.is_away = True
        world.other.answer()
        await turn()
        assert world.other.name != before
        assert world.other.handover.told == [("subscription_lost",)]

    async def test_an_unexpected_error_ends_the_epoch_and_is_logged(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        before = world.one.name
        world.channel.error = ZeroDivisionError()
        world.one.peers.send_batch(world.other.name, "b-1", batch("b-1"))
        await turn()
        assert world.one.name != before
        assert world.one.handover.told == [("subscription_lost",)]
        assert [record.getMessage() for record in caplog.records] == ["sending to another process failed"]
        world.channel.error = None
        world.one.peers.send_batch(world.other.name, "b-2", batch("b-2"))
        await turn()
        assert len(world.other.committer.accepted) == 2

    def test_an_envelope_holds_parcels_up_to_its_size(self) -> None:
        link = Link("b", parcels=deque(Parcel(b"x" * 100_000, None) for _ in range(5)))
        assert [len(link.take()) for _ in range(3)] == [2, 2, 1]
        huge = Link("b", parcels=deque([Parcel(b"x" * MAX_BYTES, None)]))
        assert len(huge.take()) == 1


class TestAnswersThatReachNobody:
    """Their addressee may be subscribed at another server for a moment, or be gone."""

    @pytest.fixture(autouse=True)
    def _try_again_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(peers, "ANSWER_AGAIN_AFTER", 0.0)

    async def ask(self, world: World) -> None:
        world.one.peers.send_batch(world.other.name, "b", batch())
        await turn()

    async def test_they_are_sent_again_to_a_process_in_the_list(self, world: World) -> None:
        await world.other.see(world.one)
        await self.ask(world)
        world.channel.lost = ANSWER_TRIES - 1
        world.other.answer()
        await turn()
        assert world.one.handover.told == [("announced", world.other.name, "b")]
        assert world.other.handover.told == []

    async def test_a_process_that_stays_in_the_list_is_told_by_the_end_of_the_epoch(self, world: World) -> None:
        await world.other.see(world.one)
        await self.ask(world)
        before, world.channel.lost = world.other.name, ANSWER_TRIES
        world.other.answer()
        await turn()
        assert world.other.name != before
        assert world.channel.lost == 0

    async def test_without_a_list_every_process_is_told(self, world: World) -> None:
        await self.ask(world)
        world.other.home_list.is_away = True
        world.other.homes.update(world.other.name, [], at=monotonic())
        before, world.channel.lost = world.other.name, ANSWER_TRIES
        world.other.answer()
        await turn()
        assert world.other.name != before

    async def test_a_process_that_has_left_the_list_needs_none(self, world: World) -> None:
        await world.other.see()
        await self.ask(world)
        before, published = world.other.name, len(world.channel.published)
        world.channel.lost = 1
        world.other.answer()
        await turn()
        assert world.other.name == before
        assert len(world.channel.published) == published + 1


class TestReceiving:
    async def receive(self, world: World, payload: bytes) -> int:
        """How many drafts the other process accepts."""
        await world.channel.publish(world.other.name, payload)
        await turn()
        return len(world.other.committer.accepted)

    async def test_a_replayed_envelope_is_refused(self, world: World) -> None:
        payload = world.seal(batch())
        assert await self.receive(world, payload) == 2
        assert await self.receive(world, payload) == 2
        assert await self.receive(world, world.seal(batch(), number=2)) == 4

    async def test_a_forged_envelope_is_refused(self, world: World) -> None:
        assert await self.receive(world, world.seal(batch()).replace(b"hello", b"hullo")) == 0

    @pytest.mark.parametrize("age", [MAX_AGE + 1, -MAX_AGE - 1])
    async def test_a_batch_of_another_time_is_not_committed_and_its_sender_is_told(
        self, world: World, age: float
    ) -> None:
        payload = world.seal(batch(), at=world.clock.now().timestamp() - age)
        assert await self.receive(world, payload) == 0
        assert world.one.handover.told == [("not_home", world.other.name, "b")]

    async def test_a_batch_of_another_version_is_not_committed_and_its_sender_is_told(self, world: World) -> None:
        assert await self.receive(world, world.seal(batch(), NEXT_ENVELOPES)) == 0
        assert world.one.handover.told == [("not_home", world.other.name, "b")]

    async def test_what_a_home_tells_before_its_answers_is_passed_on(self, world: World) -> None:
        before = refusals("unknown_parcel")
        assert await self.receive(world, world.seal(b'{"type":"stored","id":"b"}')) == 0
        assert world.other.handover.told == [("stored", world.one.name, "b")]
        assert refusals("unknown_parcel") == before

    async def test_a_parcel_of_unknown_form_is_ignored(self, world: World) -> None:
        assert await self.receive(world, world.seal(b'{"type":"newer"}')) == 0
        assert world.other.handover.told == []


class TestEpochs:
    async def test_a_subscription_that_broke_begins_a_new_epoch_and_takes_everything_back(self, world: World) -> None:
        before = world.other.name
        world.channel.subscribers[before].put_nowait(None)
        await turn()
        assert world.other.name != before
        assert world.other.handover.told == [("subscription_lost",)]

    async def test_answers_to_questions_of_a_former_epoch_are_not_sent(self, world: World) -> None:
        world.one.peers.send_batch(world.other.name, "b", batch())
        await turn()
        world.channel.subscribers[world.other.name].put_nowait(None)
        await turn()
        published = len(world.channel.published)
        world.other.answer()
        await turn()
        assert len(world.channel.published) == published

    async def test_what_waited_in_a_former_epoch_is_not_sent_also_if_a_cancellation_is_lost(self, world: World) -> None:
        """It was taken back. Sent beside what waits now, it would get numbers that make the others look replayed."""
        released, publish = asyncio.Event(), world.channel.publish

        async def lose_a_cancellation(name: str, payload: bytes) -> int:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await released.wait()
            return await publish(name, payload)

        world.channel.publish = lose_a_cancellation  # type: ignore[method-assign]
        before = world.one.name
        world.one.peers.send_batch(world.other.name, "b-1", batch("b-1"))
        await turn()
        world.one.peers.send_batch(world.other.name, "b-2", batch("b-2"))
        world.channel.subscribers[before].put_nowait(None)
        await turn()
        assert world.one.name != before
        world.channel.publish = publish  # type: ignore[method-assign]
        released.set()
        await turn()
        assert [b"b-2" in payload for _, payload in world.channel.published] == [False]

    async def test_a_process_whose_key_is_not_known_cannot_be_reached(self, world: World) -> None:
        assert world.one.peers.can_reach(world.other.name)
        assert not world.one.peers.can_reach(Envelopes("another").new_name("gw-3"))
