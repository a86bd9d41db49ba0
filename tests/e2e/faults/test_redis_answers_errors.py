"""A Redis that answers with errors is like one that is away: out of memory, or read-only as after a failover."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus

import httpx
import pytest

from engines.health import get_status
from tests.e2e.faults.crowd import Crowd
from tests.e2e.sockets import eventually, opened
from tests.e2e.system import Device, System

LAG = "parley_fanout_lag_events"
SKIPPED = "parley_fanout_skipped_events_total"


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    begin: Callable[[System], object]
    end: Callable[[System], object]


FAULTS = [
    Fault(
        "out of memory",
        begin=lambda system: system.redis_client.config_set("maxmemory", "1mb"),
        end=lambda system: system.redis_client.config_set("maxmemory", "0"),
    ),
    Fault(
        "read-only",
        begin=lambda system: system.redis_client.replicaof("127.0.0.1", "1"),
        end=lambda system: system.redis_client.replicaof("NO", "ONE"),
    ),
]


@pytest.fixture(params=FAULTS, ids=lambda fault: fault.name)
def fault(request: pytest.FixtureRequest, fragile: System) -> Iterator[Fault]:
    assert isinstance(request.param, Fault)
    yield request.param
    request.param.end(fragile)


def ready(system: System) -> dict[int, bool]:
    """Which processes say that they are ready, by port."""
    ports = [*(web.port for web in system.webs), *(fanout.port for fanout in system.fanouts)]
    return {port: get_status(port, "/readyz") == HTTPStatus.OK for port in ports}


def look_up(system: System, device: Device) -> int:
    """The status of a lookup by number, whose limit fails closed."""
    url, body = f"{system.webs[0].url}/api/users/lookup", {"phone_number": "+4915112345678"}
    return httpx.post(url, headers=device.headers, json=body).status_code


async def test_during_traffic_no_event_is_lost_and_no_socket_is_closed(fragile: System, fault: Fault) -> None:
    (fanout,) = fragile.fanouts
    await eventually(lambda: all(ready(fragile).values()))
    skipped = fanout.metric(SKIPPED)
    async with Crowd(fragile) as crowd:
        await crowd.goes_on()
        fault.begin(fragile)
        await eventually(lambda: not any(ready(fragile).values()))
        # A load balancer keeps them: their sockets stay.
        assert {get_status(web.port, "/readyz/gateway") for web in fragile.webs} == {HTTPStatus.OK}
        # Sending, and with it connecting and syncing, needs no Redis.
        await crowd.goes_on(100)
        newcomer, friend = fragile.users(2)
        async with opened(fragile.webs[0], newcomer) as socket:
            chat = fragile.direct_chat(newcomer, friend)
            await socket.send(chat, "while Redis answers with errors")
            assert (await socket.sync(chat))["messages"]
            for path in ("/api/users/me", f"/api/users/{friend.user_id}", "/api/chats"):
                fragile.rest(newcomer, "GET", path)
            assert look_up(fragile, newcomer) == HTTPStatus.SERVICE_UNAVAILABLE
            fault.end(fragile)
            await eventually(lambda: all(ready(fragile).values()))
            await crowd.goes_on()
            await socket.catch_up_with_server()
        await crowd.converges()
        assert {client.connections for client in crowd.clients} == {1}
    await eventually(lambda: fanout.metric(LAG) == 0)
    assert fanout.metric(SKIPPED) == skipped
    assert fanout.failures == []
    assert not [failure for web in fragile.webs for failure in web.failures if "redis" in failure.lower()]


async def test_events_of_cold_chats_are_pushed_when_redis_is_well_again(fragile: System) -> None:
    """A chat whose members are not cached, and a receiver who does not sync: only the fanout can bring the message."""
    (fanout,) = fragile.fanouts
    ada, bob = fragile.users(2)
    chat = fragile.direct_chat(ada, bob)
    async with opened(fragile.webs[0], ada) as sending, opened(fragile.webs[1], bob) as receiving:
        await receiving.catch_up_with_server()
        fragile.redis_client.replicaof("127.0.0.1", "1")
        try:
            for number in range(3):
                await sending.send(chat, f"{number}")
            await eventually(lambda: fanout.metric("parley_fanout_stalled") > 0 and fanout.metric(LAG) > 0)
            assert receiving.messages == []
        finally:
            fragile.redis_client.replicaof("NO", "ONE")
        await receiving.receive_until(lambda: [each["content"] for each in receiving.messages] == ["0", "1", "2"])
    await eventually(lambda: fanout.metric(LAG) == fanout.metric("parley_fanout_stalled") == 0)


async def test_who_never_syncs_gets_what_was_sent_meanwhile(fragile: System, fault: Fault) -> None:
    """Syncs would hide a push that was lost."""
    (fanout,) = fragile.fanouts
    skipped = fanout.metric(SKIPPED)
    ada, bob = fragile.users(2)
    chat = fragile.direct_chat(ada, bob)
    async with opened(fragile.webs[0], ada) as sending, opened(fragile.webs[1], bob) as receiving:
        await receiving.catch_up_with_server()
        fault.begin(fragile)
        await eventually(lambda: not any(ready(fragile).values()))
        for number in range(20):
            await sending.send(chat, f"{number}")
        fault.end(fragile)
        await receiving.receive_until(lambda: len(receiving.messages) == 20)
    assert [each["content"] for each in receiving.messages] == [f"{number}" for number in range(20)]
    await eventually(lambda: fanout.metric(LAG) == 0)
    assert fanout.metric(SKIPPED) == skipped
