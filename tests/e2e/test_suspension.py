"""A suspended person is out within a second, on every gateway, and back when restored."""

import asyncio
import os
import subprocess
import sys
import uuid
from contextlib import suppress

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from engines.processes import PROJECT_ROOT
from foundation.kernel.ids import ChatId
from tests.e2e.sockets import Socket, eventually, listeners, opened
from tests.e2e.system import Device, System

SUSPENDED = 4403


@pytest.fixture
def migrated(system: System) -> System:
    """The database of the audit log exists."""
    manage(system, "migrate", "--verbosity", "0")
    return system


def manage(system: System, *arguments: str) -> None:
    environment = {**os.environ, **system._environment}
    subprocess.run([sys.executable, "manage.py", *arguments], env=environment, cwd=PROJECT_ROOT, timeout=60, check=True)


def answers(system: System, device: Device) -> list[tuple[int, str]]:
    """What the REST of each gateway says to the device."""
    found = [httpx.get(f"{web.url}/api/users/me", headers=device.headers) for web in system.webs]
    return [(answer.status_code, answer.json().get("code", "")) for answer in found]


def sent(system: System, device: Device, chat_id: ChatId) -> list[tuple[int, str]]:
    """What the REST of each gateway says to a message of the device."""
    body = {"content": "hello", "content_type": "text/plain"}
    found = [
        httpx.post(
            f"{web.url}/api/chats/{chat_id}/messages",
            headers=device.headers,
            json={**body, "client_message_id": str(uuid.uuid4())},
        )
        for web in system.webs
    ]
    return [(answer.status_code, answer.json().get("code", "")) for answer in found]


async def run(command: str, system: System, device: Device) -> None:
    """Run a command about the device's owner, when every gateway listens."""
    await eventually(lambda: listeners(system) == len(system.webs))
    await asyncio.to_thread(manage, system, command, device.user_id, "--reason", "a test", "--as", "tests")


class TestSuspension:
    async def test_sockets_close_and_sends_are_refused_on_every_gateway_until_the_restoration(
        self, migrated: System
    ) -> None:
        ann, bob = migrated.users(2)
        chat_id = migrated.direct_chat(ann, bob)
        tablet = migrated.another_device(ann)
        async with (
            opened(migrated.webs[0], ann) as first,
            opened(migrated.webs[1], tablet) as second,
            opened(migrated.webs[0], bob) as other,
        ):
            await run("suspend", migrated, ann)
            assert await first.closed_with() == SUSPENDED
            assert await second.closed_with() == SUSPENDED
            await other.send(chat_id, "are you there?")
        await eventually(lambda: answers(migrated, ann) == [(403, "account_suspended")] * 2)
        assert sent(migrated, ann, chat_id) == [(403, "account_suspended")] * 2
        async with connect(migrated.webs[0].socket_url, additional_headers=ann.headers) as connection:
            socket = Socket(connection)
            with suppress(ConnectionClosed):
                await socket.write("send_message", chat_id=chat_id, content="hello", client_message_id="suspended")
            assert await socket.closed_with() == SUSPENDED
        assert [message.sender_id for message in migrated.stored(chat_id)] == [bob.user_id]
        await run("restore", migrated, ann)
        await eventually(lambda: answers(migrated, ann) == [(200, "")] * 2)
        async with opened(migrated.webs[1], ann) as back:
            assert (await back.send(chat_id, "I am back"))["sequence"] == 2
        assert sent(migrated, ann, chat_id) == [(201, "")] * 2

    async def test_revoked_sessions_are_closed_everywhere(self, migrated: System) -> None:
        ann, bob = migrated.users(2)
        async with opened(migrated.webs[0], bob), opened(migrated.webs[1], ann) as socket:
            await run("revoke_sessions", migrated, ann)
            assert await socket.closed_with() == SUSPENDED
