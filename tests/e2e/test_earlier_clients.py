"""Clients that know only messages go on working in a chat with entries of every kind."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

from foundation.kernel.ids import ChatId
from tests.e2e.earlier.client import Client
from tests.e2e.sockets import eventually
from tests.e2e.system import Device, System

HERE = Path(__file__).parent
NODE = shutil.which("node", path=str(Path(sys.executable).parent)) or "node"


def fill(system: System, ada: Device, ben: Device) -> ChatId:
    """Six entries: a message, an edit, a reaction, a pin, a notice, and a reply."""
    chat_id = system.group(ada, [ben])
    entries = f"/api/chats/{chat_id}/messages"
    system.rest(ada, "POST", entries, client_message_id="one", content="one")
    system.rest(ada, "PATCH", f"{entries}/1", client_message_id="edit", content="one, edited")
    system.rest(ben, "PUT", f"{entries}/1/reactions/👍")
    system.rest(ada, "PUT", f"/api/chats/{chat_id}/pins/1")
    system.rest(ada, "PATCH", f"/api/chats/{chat_id}", name="Sailors")
    system.rest(ben, "POST", entries, client_message_id="six", content="six", reply_to=1)
    return chat_id


class TestThePythonClient:
    async def test_it_delivers_every_slot_in_order_and_goes_on_sending(self, system: System) -> None:
        ada, ben = system.users(2)
        chat_id = fill(system, ada, ben)
        async with Client(system.webs[0].socket_url, token=ben.token) as client:
            client.follow(chat_id)
            shown = await client.read(6)
            assert [message["sequence"] for message in shown] == [1, 2, 3, 4, 5, 6]
            assert (shown[0]["content"], shown[5]["content"]) == ("one, edited", "six")
            assert (await client.send(chat_id, "seven"))["sequence"] == 7
            await asyncio.to_thread(system.rest, ada, "DELETE", f"/api/chats/{chat_id}/messages/1")
            assert [message["sequence"] for message in await client.read(2)] == [7, 8]
            await eventually(lambda: _acknowledged(system, ben, chat_id) == 8)
            assert not client.errors


def _acknowledged(system: System, device: Device, chat_id: ChatId) -> int:
    marks = system.rest(device, "GET", "/api/delivery")["items"]
    return next((mark["last_acked_sequence"] for mark in marks if mark["chat_id"] == chat_id), 0)


class TestTheJavaScriptClient:
    def test_it_delivers_every_slot_in_order_and_goes_on_sending(self, system: System) -> None:
        ada, ben = system.users(2)
        chat_id = fill(system, ada, ben)
        login = {"user": {"user_id": ben.user_id}, "session_id": ben.session_id, "access_token": ben.token}
        arguments = [system.webs[0].url, chat_id, json.dumps({**login, "refresh_token": "none", "expires_in": 900})]
        command = [NODE, str(HERE / "earlier" / "follow.mjs"), *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            shown = [json.loads(process.stdout.readline()) for _ in range(7)]
            system.rest(ada, "DELETE", f"/api/chats/{chat_id}/messages/1")
            shown.append(json.loads(process.stdout.readline()))
            process.terminate()
        assert [message["sequence"] for message in shown] == [1, 2, 3, 4, 5, 6, 7, 8]
        assert (shown[0]["content"], shown[6]["content"]) == ("one, edited", "from the earlier parley.js")
