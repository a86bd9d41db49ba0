"""The fanout may die at any moment: what it had not finished is done again, and clients show it once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from httpx import TransportError

from tests.e2e.faults.crowd import Crowd
from tests.e2e.sockets import eventually
from tests.e2e.system import Fanout, System

DELIVERED = 'parley_fanout_events_total{event_type="MessagePersisted"}'


def delivered(fanout: Fanout) -> float:
    try:
        return fanout.metric(DELIVERED)
    except TransportError:
        return 0


@asynccontextmanager
async def crowd_served_by(system: System, fanout: Fanout) -> AsyncIterator[Crowd]:
    """A crowd whose chat is in one of this worker's partitions; the worker has just been started."""
    while True:
        async with Crowd(system) as crowd:
            before = delivered(fanout)
            await crowd.goes_on()
            if delivered(fanout) > before:
                yield crowd
                return


async def test_killed_in_mid_batch_and_restarted(fragile: System) -> None:
    (fanout,) = fragile.fanouts
    async with Crowd(fragile, size=20) as crowd:
        await eventually(lambda: delivered(fanout) > 0)
        await crowd.goes_on(100)
        fanout.kill()
        await crowd.goes_on(100)
        fanout.restart()
        await crowd.goes_on(100)
        await crowd.converges()


async def test_a_second_worker_shares_the_work_and_hands_it_back_when_asked_to_stop(fragile: System) -> None:
    second = fragile.start_fanout()
    async with crowd_served_by(fragile, second) as crowd:
        second.terminate()
        await crowd.goes_on()
        assert second.wait() == 0
        await crowd.goes_on()
        await crowd.converges()
    assert second.failures == []
    fragile.fanouts.remove(second)


async def test_of_two_workers_the_other_takes_over_from_a_killed_one(fragile: System) -> None:
    second = fragile.start_fanout()
    async with crowd_served_by(fragile, second) as crowd:
        second.kill()
        await crowd.goes_on()
        await crowd.converges()
    fragile.fanouts.remove(second)
