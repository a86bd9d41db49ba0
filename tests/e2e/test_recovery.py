"""`reconcile` and its watch against the running system: what a crash kept from Kafka reaches a connected client."""

import asyncio
import uuid
from collections.abc import Iterator

import pytest

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
    assert "Nothing found" in told
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
    ada, bob = watched.users(2)
    chat = watched.direct_chat(ada, bob)
    watcher = Service(("reconcile", "--watch"), watched.environment)
    try:
        await sockets.eventually(lambda: "watching" in watcher.log, within=40)
        async with opened(watched.webs[1], bob) as receiving:
            async with opened(watched.webs[0], ada) as sending:
                watched.kafka.take_down()
                identifier = str(uuid.uuid4())
                await sending.write("send_message", client_message_id=identifier, chat_id=chat, content="orphaned")
                await sockets.eventually(lambda: len(watched.stored(chat)) == 1)
                watched.webs[0].kill()
            watched.kafka.bring_up()
            arrived = await receiving.receive("message", within=60)
            assert (arrived["sequence"], arrived["content"]) == (1, "orphaned")
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
        assert sockets_are_refused(watched)
        code, told = await asyncio.to_thread(manage, watched, f"drain {gateway} --undo")
        assert code == 0, told
        await sockets.eventually(lambda: not sockets_are_refused(watched))
        async with opened(watched.webs[0], ada):
            pass


def sockets_are_refused(system: System) -> bool:
    return get_status(system.webs[0].port, "/readyz") == 503
