"""Clients that follow a chat's log with the reference clients' own code, and what their logs did, for the other one."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from parley_client import ChatLog, Client, RequestFailed
from parley_client.log import Entry, Read

from tests.e2e.system import Device, Web

T = TypeVar("T")
Shown = dict[str, Any]
NODE = shutil.which("node", path=str(Path(sys.executable).parent)) or "node"
SCRIPT = Path(__file__).with_name("follow.mjs")
RETRY_PAUSE = 0.05


class RecordingLog(ChatLog):
    """A log that keeps what is done to it, so that `protocol/log.js` can do the same."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[dict[str, Any]] = []
        self._numbers: dict[Read, int] = {}

    @property
    def shown(self) -> Shown:
        return {"timeline": self.timeline, "pins": self.pins, "skipped": self.skipped}

    def apply(self, entry: Entry) -> None:
        self.operations.append({"name": "apply", "entries": [entry]})
        super().apply(entry)

    def begin_read(self) -> Read:
        read = super().begin_read()
        self._numbers[read] = len(self._numbers)
        self._record("begin_read", read)
        return read

    def end_page(self, read: Read, entries: Iterable[Entry]) -> bool:
        page = list(entries)
        self._record("end_page", read, page)
        return super().end_page(read, page)

    def end_pins(self, read: Read, messages: Iterable[Entry]) -> bool:
        pinned = list(messages)
        self._record("end_pins", read, pinned)
        return super().end_pins(read, pinned)

    def cancel_read(self, read: Read) -> None:
        self._record("cancel_read", read)
        super().cancel_read(read)

    def _record(self, name: str, read: Read, entries: list[Entry] | None = None) -> None:
        self.operations.append({"name": name, "read": self._numbers[read], "entries": entries or []})


class Follower(Client):
    """A client that can be taken offline, and whose older pages and pins arrive late, as the test says."""

    def __init__(self, url: Callable[[], str], device: Device) -> None:
        self._pick_url = url
        self._is_away = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        super().__init__(self._find_url, token=device.token, first_pause=0.05, longest_pause=0.5)

    def leave(self) -> None:
        """Lose the connection and get no other until `come_back`."""
        self._is_away = True
        self.reconnect()

    def come_back(self) -> None:
        self._is_away = False

    async def request(self, method: str, path: str, *, query: dict[str, Any] | None = None, body: Any = None) -> Any:
        answer = await super().request(method, path, query=query, body=body)
        if "before_sequence" in (query or {}) or path.endswith("/pins"):
            await self.may_answer.wait()
        return answer

    def _find_url(self) -> str:
        if self._is_away:
            raise ConnectionError("there is no network")
        return self._pick_url()


async def until_answered(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until a process answers: one that is killed does not."""
    while True:
        try:
            return await ask()
        except OSError:
            await asyncio.sleep(RETRY_PAUSE)
        except RequestFailed as failed:
            if failed.status < 500:
                raise
            await asyncio.sleep(RETRY_PAUSE)


class WebClient:
    """A process of node with `parley.js`. A context manager."""

    def __init__(self, web: Web, device: Device) -> None:
        login = {"user": {"user_id": device.user_id}, "session_id": device.session_id, "access_token": device.token}
        arguments = [web.url, json.dumps({**login, "refresh_token": "none", "expires_in": 900})]
        self._process = subprocess.Popen(
            [NODE, str(SCRIPT), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "WebClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def open(self, chat_id: str) -> None:
        self._call(open=chat_id)

    def shown(self, chat_id: str, *, until: int) -> Shown:
        """What it shows of the chat when it has got this entry."""
        return self._call(state=chat_id, until=until)

    def replay(self, log: RecordingLog) -> Shown:
        """What its log shows after the same operations."""
        return self._call(replay=log.operations)

    def _call(self, **command: Any) -> Shown:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "parley.js ended; its error is above"
        shown: Shown = json.loads(answer)
        return shown
