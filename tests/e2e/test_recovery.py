"""`reconcile` and its watch against the running system: what a crash kept from Kafka reaches a connected client."""

import asyncio
import uuid
from collections.abc import Iterator
from functools import partial

import pytest

from chats.stores.memberships import MembershipStore
from engines.health import get_status
from tests.e2e import sockets
from tests.e2e.drills.crashes import store_past_kafka, wait_until_missing
from tests.e2e.drills.runbook import Runbook
from tests.e2e.sockets import opened
from tests.e2e.system import Service, System


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with System(tmp_path_factory.mktemp("watched"), webs=2, fanouts=1) as system:
        assert Runbook("README", system.environment).execute("python manage.py migrate --verbosity 0").code == 0
        yield system


def manage(system: System, arguments: str) -> tuple[int, str]:
    outcome = Runbook("README", system.environment).execute(f"python manage.py {arguments}")
    return outcome.code, outcome.output + outcome.errors


async def test_the_demo_is_complete_until_a_message_goes_past_kafka(watched: System) -> None:
    code, told = await asyncio.to_thread(manage, watched, "demo")
    assert code == 0, told
    code, told = await asyncio.to_thread(manage, watched, "reconcile --all")
    assert code == 0, told
    assert "Nothing is missing" in told
    ada, bob = watched.users(2)
    chat = watched.direct_chat(ada, bob)
    async with opened(watched.webs[0], bob) as receiving:
        lost = store_past_kafka(watched, chat, ada, "past Kafka")
        wait_until_missing(lost)
        code, told = await asyncio.to_thread(manage, watched, "reconcile --all")
        assert code == 1, told
        assert chat in told
        code, told = await asyncio.to_thread(manage, watched, "reconcile --all --repair --yes")
        assert code == 0, told
        arrived = await receiving.receive("message")
        assert (arrived["sequence"], arrived["content"]) == (1, "past Kafka")


async def test_the_watch_publishes_what_a_killed_process_had_not_without_any_client(watched: System) -> None:
    ada, bob, eve = watched.users(3)
    chat, group = watched.direct_chat(ada, bob), watched.group(ada, [bob])
    memberships = MembershipStore(watched.database)
    adding = partial(watched.rest, ada, "POST", f"/api/chats/{group}/members", action="add", user_id=eve.user_id)
    creating = partial(watched.rest, ada, "POST", "/api/chats", type="group", name="Lost", members=[bob.user_id])

    def is_stored() -> bool:
        known, _ = watched.database.loop.run(memberships.list_chat_ids(bob.user_id, limit=10, after=None))
        is_added = memberships.find(group, eve.user_id) is not None
        return len(watched.stored(chat)) == 1 and is_added and len({*known, chat, group}) == 3

    watcher = Service(("reconcile", "--watch"), watched.environment)
    try:
        await sockets.eventually(lambda: "watching" in watcher.log, within=40)
        async with opened(watched.webs[1], bob) as receiving:
            async with opened(watched.webs[0], ada) as sending:
                watched.kafka.take_down()
                unanswered = [asyncio.create_task(asyncio.to_thread(request)) for request in (adding, creating)]
                identifier = str(uuid.uuid4())
                await sending.write("send_message", client_message_id=identifier, chat_id=chat, content="orphaned")
                await sockets.eventually(is_stored)
                watched.webs[0].kill()
            watched.kafka.bring_up()
            await asyncio.gather(*unanswered, return_exceptions=True)

            def has_all() -> bool:
                notices = {(each["type"], each.get("name") or each.get("user_id")) for each in receiving.frames}
                told = {("chat_created", "Lost"), ("membership_changed", eve.user_id)} <= notices
                return told and any(each["content"] == "orphaned" for each in receiving.messages)

            await receiving.receive_until(has_all, within=60)
    finally:
        watcher.terminate()
        assert watcher.wait() == 0
        watched.webs[0].restart()
        watched.webs[0].wait_until_ready()


async def test_a_drained_gateway_sends_its_clients_to_others_until_it_is_resumed(watched: System) -> None:
    ada, bob = watched.users(2)
    async with opened(watched.webs[0], ada) as here, opened(watched.webs[1], bob) as there:
        gateway = here.frames[0]["connection_id"].partition(".")[0]
        code, told = await asyncio.to_thread(manage, watched, f"drain {gateway} --yes --reason test")
        assert code == 0, told
        assert await here.closed_with() == 1012
        async with opened(watched.webs[1], ada):
            await there.catch_up_with_server()
        # `/readyz` may tell what it found within the last second.
        await sockets.eventually(lambda: readiness(watched) == [503, 503])
        code, told = await asyncio.to_thread(manage, watched, f"drain {gateway} --undo")
        assert code == 0, told
        await sockets.eventually(lambda: readiness(watched) == [200, 200])
        async with opened(watched.webs[0], ada):
            pass


def readiness(system: System) -> list[int | None]:
    """As a load balancer sees it, and whoever asks for all parts of the process."""
    return [get_status(system.webs[0].port, path) for path in ("/readyz/gateway", "/readyz")]
