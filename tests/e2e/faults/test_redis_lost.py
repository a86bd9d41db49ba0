"""Redis holds nothing that may not be lost: wiped, killed or cut off, it delays deliveries and loses none."""

from http import HTTPStatus

from engines.health import get_status
from tests.e2e.faults.crowd import Crowd
from tests.e2e.sockets import eventually, listeners, opened
from tests.e2e.system import System


def restart_redis(system: System) -> None:
    system.redis.start()
    system.redis.wait_until_ready()


async def test_wiped_in_mid_traffic(fragile: System) -> None:
    async with Crowd(fragile) as crowd:
        for _ in range(3):
            await crowd.goes_on()
            fragile.redis_client.flushall()
        await crowd.goes_on()
        await crowd.converges()


async def test_wiped_before_the_last_message(fragile: System) -> None:
    """No later message shows the gap: the gateway itself must notice the loss and tell its clients."""
    async with Crowd(fragile) as crowd:
        await crowd.goes_on()
        fragile.redis_client.flushall()
        await crowd.goes_on(10)
        await crowd.converges()


async def test_a_connection_made_after_a_loss_does_not_hide_it(fragile: System) -> None:
    ada, bob, late = fragile.users(3)
    chat = fragile.group(ada, [bob])
    web = fragile.webs[0]
    async with opened(web, ada) as sending, opened(web, bob) as receiving:
        fragile.redis_client.flushall()
        async with opened(web, late):
            await sending.send(chat, "while nobody is known")
            await receiving.receive("resync")
            page = await receiving.sync(chat)
            assert [message["content"] for message in page["messages"]] == ["while nobody is known"]
            await sending.send(chat, "and again")
            await receiving.receive_until(lambda: "and again" in [message["content"] for message in receiving.messages])


async def test_killed_and_restarted_in_mid_traffic(fragile: System) -> None:
    async with Crowd(fragile) as crowd:
        await crowd.goes_on()
        fragile.redis.kill()
        # Sending, and with it connecting and syncing, needs no Redis.
        await crowd.goes_on()
        newcomer = crowd.members[0]
        async with opened(fragile.webs[0], newcomer) as socket:
            assert (await socket.sync(crowd.chat))["messages"]
        restart_redis(fragile)
        await crowd.goes_on()
        await crowd.converges()


async def test_after_a_restart_revoked_sessions_are_still_closed(fragile: System) -> None:
    device = fragile.user()
    other = fragile.another_device(device)
    async with opened(fragile.webs[0], device) as here, opened(fragile.webs[1], device) as there:
        fragile.redis.kill()
        restart_redis(fragile)
        await eventually(lambda: listeners(fragile) == len(fragile.webs))
        fragile.rest(other, "DELETE", f"/api/sessions/{device.session_id}")
        assert await here.closed_with(within=10) == 4403
        assert await there.closed_with(within=10) == 4403
        await eventually(lambda: len(fragile.redis_client.pubsub_channels("gateway:*")) == len(fragile.webs))


async def test_a_gateway_starts_without_redis_and_listens_when_it_is_back(fragile: System) -> None:
    """`web` does not need a socket to follow control messages."""
    fragile.redis.kill()
    late = fragile.start_web(wait=False)
    try:
        await eventually(lambda: get_status(late.port, "/healthz") == HTTPStatus.OK, within=40)
        restart_redis(fragile)
        await eventually(lambda: listeners(fragile) == len(fragile.webs))
        late.wait_until_ready()
    finally:
        fragile.webs.remove(late)
        late.terminate()
    assert late.wait() == 0


async def test_a_subscription_that_breaks_is_made_again_and_everyone_syncs(fragile: System) -> None:
    ada, bob = fragile.users(2)
    chat = fragile.direct_chat(ada, bob)
    async with opened(fragile.webs[0], ada) as sending, opened(fragile.webs[1], bob) as receiving:
        await sending.send(chat, "before")
        await receiving.receive("message")
        fragile.redis_client.client_kill_filter(_type="pubsub")
        await receiving.receive("resync", within=10)
        await sending.send(chat, "after")
        await receiving.receive("message")


async def test_marks_stay_right_and_receipts_typing_and_presence_come_back(fragile: System) -> None:
    ada, bob = fragile.users(2)
    chat = fragile.direct_chat(ada, bob)
    web = fragile.webs[0]
    async with opened(web, ada) as ada_socket, opened(web, bob) as bob_socket:
        await ada_socket.send(chat, "one")
        fragile.redis_client.flushall()
        await bob_socket.write("read", chat_id=chat, sequence=1)
        await eventually(lambda: fragile.watermark(bob.user_id, chat) == 1)
        await bob_socket.receive("resync")
        await ada_socket.send(chat, "two")
        await bob_socket.write("read", chat_id=chat, sequence=2)
        await ada_socket.receive_until(
            lambda: any(
                mark.get("last_read_sequence") == 2
                for frame in ada_socket.frames
                if frame["type"] == "receipts"
                for mark in frame["marks"]
            )
        )
        await bob_socket.write("typing", chat_id=chat, active=True)
        assert (await ada_socket.receive("typing"))["active"] is True
        await ada_socket.write("watch_presence", chat_id=chat, user_ids=[bob.user_id])
        assert (await ada_socket.receive("presence"))["status"] == "online"
