"""A rolling upgrade: processes of two revisions serve the same chats, and clients lose nothing.

The revision before knows messages only. Those of its processes go on arriving while newer ones store entries of every
kind, and half of the clients know messages only.
"""

import asyncio
import io
import subprocess
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from parley_client import ChatLog, Client
from parley_client.log import kind_of

from accounts.stores.inspection import UserInspection
from chats.stores.inspection import ChatInspection
from delivery.stores.inspection import MarkInspection
from engines.processes import PROJECT_ROOT
from foundation.kernel.clock import SystemClock
from foundation.kernel.ids import ChatId
from messaging.domain import Kind
from messaging.stores.inspection import LogInspection
from staff.services.audit.auditor import Auditor, AuditScope
from staff.services.audit.problems import AuditStores
from tests.e2e.earlier.client import Client as EarlierClient
from tests.e2e.faults.crowd import Crowd
from tests.e2e.sockets import eventually
from tests.e2e.system import Device, System, Web

REVISION_BEFORE = "100f93a8227135cb818873ef969965224a05865f"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of the revision before."""
    archive = subprocess.run(
        ["git", "archive", REVISION_BEFORE], cwd=PROJECT_ROOT, capture_output=True, timeout=60, check=True
    )
    root = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(root, filter="data")
    return root


class Changes:
    """The owner of a group changes messages, the name and the members through one process, one change a turn."""

    def __init__(self, client: Client, log: ChatLog, chat_id: ChatId, guest: Device) -> None:
        self._client, self._log, self._chat_id, self._guest = client, log, chat_id, guest
        self._deleted: set[int] = set()
        self._turn = 0
        self._is_ending = False

    async def run(self) -> None:
        while not (self._is_ending and self._is_odd):
            await self._change_messages()
            await self._change_chat()
            self._turn += 1

    async def goes_on(self) -> None:
        """Wait for two more turns: the first may have begun before."""
        goal = self._turn + 2
        await eventually(lambda: self._turn >= goal)

    async def ends(self, running: "asyncio.Future[None]") -> None:
        """Stop with the guest as a member."""
        self._is_ending = True
        await running

    async def _change_messages(self) -> None:
        """An old message and a new one, which other processes may have stored."""
        client, chat_id = self._client, self._chat_id
        for back in (0, -1):
            await client.react(chat_id, self._messages()[back], "👍", action="remove" if self._is_odd else "add")
            own = self._messages(of=client.user_id)[back]
            await client.edit(chat_id, own, f"edited {self._turn}.{back}")
            await client.pin(chat_id, self._messages()[back])
            unwanted = self._messages()[back]
            self._deleted.add(unwanted)
            await client.delete(chat_id, unwanted)

    async def _change_chat(self) -> None:
        path = f"/api/chats/{self._chat_id}"
        await self._client.request("PATCH", path, body={"name": f"Name {self._turn}"})
        action = {"user_id": self._guest.user_id, "action": "remove" if self._is_odd else "add"}
        await self._client.request("POST", f"{path}/members", body=action)

    @property
    def _is_odd(self) -> bool:
        return self._turn % 2 == 1

    def _messages(self, *, of: str | None = None) -> list[int]:
        return [
            entry["sequence"]
            for entry in self._log.timeline
            if kind_of(entry) == "message"
            and entry["sequence"] not in self._deleted
            and of in (None, entry["sender_id"])
        ]


@asynccontextmanager
async def opened(web: Web, device: Device, chat_id: ChatId) -> AsyncIterator[tuple[Client, ChatLog]]:
    """A client that shows the chat."""
    async with Client(web.socket_url, token=device.token) as client:
        yield client, await client.open(chat_id)


async def whole(client: Client, log: ChatLog, chat_id: ChatId) -> Any:
    """What a client shows that has paged back to the beginning. Events of older processes have no kind."""
    while log.first > 1:
        await client.load_older(chat_id)
    timeline = [{"kind": "message", **entry} for entry in log.timeline]
    deleted = {entry["sequence"] for entry in timeline if "deleted_at" in entry}
    return timeline, [sequence for sequence in log.pins if sequence not in deleted]


async def test_replacing_readers_then_writers_one_by_one_loses_nothing(before: Path, tmp_path: Path) -> None:
    with System(tmp_path, webs=0, fanouts=0, durable=True) as system:
        old_fanout = system.start_fanout(root=before)
        old_webs = [system.start_web(before, wait=False) for _ in range(2)]
        for old_web in old_webs:
            old_web.wait_until_ready()
        async with Crowd(system, client_types=(Client, EarlierClient)) as crowd:
            await crowd.goes_on()
            system.start_fanout()
            await crowd.goes_on()
            old_fanout.terminate()
            assert old_fanout.wait() == 0
            await crowd.goes_on()
            new_web = system.start_web()
            owner, guest, chat_id = system.another_device(crowd.members[0]), system.user(), crowd.chat
            async with opened(new_web, owner, chat_id) as (client, log):
                changes = Changes(client, log, chat_id, guest)
                changing = asyncio.ensure_future(changes.run())
                for old_web, replacement in zip(old_webs, (new_web, system.start_web(wait=False)), strict=True):
                    await changes.goes_on()
                    replacement.wait_until_ready()
                    crowd.webs.append(replacement)
                    await crowd.goes_on()
                    crowd.webs.remove(old_web)
                    old_web.terminate()
                    assert old_web.wait() == 0
                    await crowd.goes_on()
                await changes.ends(changing)
                await crowd.converges()
                stored = system.stored(chat_id)
                assert {entry.kind for entry in stored} == set(Kind)
                await eventually(lambda: log.last == len(stored))
                async with opened(crowd.webs[-1], crowd.members[1], chat_id) as (newcomer, fresh):
                    assert await whole(client, log, chat_id) == await whole(newcomer, fresh, chat_id)
        joined = max(entry.sequence for entry in stored if (entry.notice or {}).get("type") == "member_added")
        unread = sum(entry.kind is Kind.MESSAGE for entry in stored if entry.sequence > joined)
        assert [chat["unread_count"] for chat in inbox(system, guest)] == [unread]
        assert audit(system, chat_id, repair=True) == {"others_wrong"}, "older processes do not count other entries"
        assert not audit(system, chat_id)
        system.require_no_failures()


def inbox(system: System, device: Device) -> Any:
    system.webs = [web for web in system.webs if web.process.status is None]
    return system.rest(device, "GET", "/api/chats")["items"]


def audit(system: System, chat_id: ChatId, *, repair: bool = False) -> set[str]:
    """The kinds of problems. With `repair` each of them is repaired."""
    stores = AuditStores(
        users=UserInspection(system.database),
        chats=ChatInspection(system.database),
        log=LogInspection(system.database),
        marks=MarkInspection(system.database),
    )
    auditor = Auditor(stores, clock=SystemClock())
    report = system.database.loop.run(auditor.run(AuditScope(chat_ids=[chat_id]), repair=repair))
    assert all(finding.repaired for finding in report.findings) or not repair, report.findings
    return {finding.kind for finding in report.findings}
