"""When a gateway stops, is killed or freezes, its clients go on elsewhere and miss nothing."""

from contextlib import suppress

from delivery.stores.connections import CONNECTION_TTL
from tests.e2e.faults.crowd import Crowd
from tests.e2e.sockets import eventually, opened
from tests.e2e.system import System, Web


def known_connections(system: System, gateway_id: str) -> int:
    return int(system.redis_client.scard(f"gateway_connections:{gateway_id}"))


def gateway_of(connection_id: str) -> str:
    return connection_id.partition(".")[0]


async def start_again(system: System, web: Web) -> None:
    web.restart()
    web.wait_until_ready()


async def test_asked_to_stop_it_sends_its_clients_elsewhere(fragile: System) -> None:
    leaving = fragile.webs[1]
    begun = len(leaving.lines)
    device = fragile.user()
    async with Crowd(fragile) as crowd, opened(leaving, device) as socket:
        gateway_id = gateway_of(socket.frames[0]["connection_id"])
        await crowd.goes_on()
        leaving.terminate()
        assert await socket.closed_with() == 1012
        await crowd.goes_on()
        assert leaving.wait() == 0
        await crowd.goes_on()
        await crowd.converges()
        assert {client.closed_with for client in crowd.clients} <= {None, 1012}
    assert known_connections(fragile, gateway_id) == 0
    assert not [line for line in leaving.lines[begun:] if "Traceback" in line]
    await start_again(fragile, leaving)


async def test_killed_its_clients_go_on_elsewhere_and_its_entries_expire(fragile: System) -> None:
    dying = fragile.webs[1]
    device = fragile.user()
    async with Crowd(fragile) as crowd, opened(dying, device) as socket:
        gateway_id = gateway_of(socket.frames[0]["connection_id"])
        await crowd.goes_on()
        dying.kill()
        assert await socket.closed_with() is None
        # The entries of a killed gateway are no longer refreshed: they expire within a minute.
        redis = fragile.redis_client
        left = [f"gateway_connections:{gateway_id}", f"user_connections:{device.user_id}"]
        before = [redis.pttl(key) for key in left]
        assert all(0 < then <= CONNECTION_TTL * 1000 for then in before)
        await crowd.goes_on()
        await crowd.converges()
    await eventually(lambda: all(redis.pttl(key) < then for key, then in zip(left, before, strict=True)))
    await start_again(fragile, dying)


async def test_frozen_for_a_while_its_clients_wait_and_miss_nothing(fragile: System) -> None:
    frozen = fragile.webs[1]
    async with Crowd(fragile) as crowd:
        await crowd.goes_on()
        frozen.freeze()
        await crowd.goes_on()
        frozen.thaw()
        await crowd.goes_on()
        await crowd.converges()
        assert {client.connections for client in crowd.clients} == {1}


async def test_a_users_other_device_outlives_a_killed_gateway_and_the_dead_entry_goes(fragile: System) -> None:
    """The living device keeps the user's set alive: the dead connection must not stay in it for ever."""
    dying, living = fragile.webs[1], fragile.webs[0]
    phone, friend = fragile.users(2)
    tablet = fragile.another_device(phone)
    chat = fragile.direct_chat(phone, friend)
    key = f"user_connections:{phone.user_id}"
    async with opened(dying, phone) as lost, opened(living, tablet) as stays, opened(living, friend) as sending:
        dead, alive = (socket.frames[0]["connection_id"].encode() for socket in (lost, stays))
        assert fragile.redis_client.smembers(key) == {dead, alive}
        dying.kill()
        await sending.send(chat, "to whom it may concern")
        await stays.receive("message")
        # As when the dead gateway's own entries have expired, which would take a minute.
        fragile.redis_client.delete(f"gateway_connections:{dead.decode().partition('.')[0]}")
        await sending.send(chat, "to the living")
        await stays.receive("message")
        await eventually(lambda: fragile.redis_client.smembers(key) == {alive})
        with suppress(ConnectionError):
            await lost.closed_with()
    await start_again(fragile, dying)


async def test_killed_in_mid_send_again_and_again_what_was_acknowledged_is_there_once(fragile: System) -> None:
    dying = fragile.webs[1]
    async with Crowd(fragile, size=20) as crowd:
        for _ in range(3):
            await crowd.goes_on(40)
            dying.kill()
            await start_again(fragile, dying)
            for client in crowd.clients[::2]:
                client.reconnect()
        await crowd.goes_on(40)
        await crowd.converges()
