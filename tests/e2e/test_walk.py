"""The walk of one message, from its frame to the receiver's socket, is the one that docs/architecture.md describes."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from engines.processes import PROJECT_ROOT
from tests.doubles import eventually
from tests.e2e.sockets import Socket, opened
from tests.e2e.system import System

MAX_MODULES = 20
WINDOWS = 6


class TracedSystem(System):
    """One `web` and one `fanout` that record the source files that run."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir, webs=1)
        self.traces = data_dir / "traces"
        self.traces.mkdir()
        self._window = 0
        (self.traces / "window").write_text("0")

    def _start_engines(self, starting: ExitStack) -> None:
        super()._start_engines(starting)
        hook = Path(__file__).parent / "tracing"
        self._environment |= {"TRACE_DIR": str(self.traces), "PYTHONPATH": str(hook)}

    def next_window(self) -> set[str]:
        """End the window; return our modules that ran in it, in either process."""
        ended = self._window
        self._window += 1
        written = self.traces / "window.part"
        written.write_text(str(self._window))
        written.rename(self.traces / "window")
        processes = [service.process.pid for service in (*self.webs, *self.fanouts)]
        eventually(lambda: all((self.traces / f"{pid}-{ended}").exists() for pid in processes))
        files = {line for pid in processes for line in (self.traces / f"{pid}-{ended}").read_text().splitlines()}
        return {module for file in files if (module := _module(file)) is not None}


def _module(file: str) -> str | None:
    """The path within the project; None for libraries and for the tests' own files."""
    path = Path(file)
    if not path.is_relative_to(PROJECT_ROOT) or ".venv" in path.parts or "tests" in path.parts:
        return None
    return str(path.relative_to(PROJECT_ROOT))


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[TracedSystem]:
    with TracedSystem(tmp_path) as system:
        yield system


async def test_a_message_passes_the_modules_that_the_page_names_and_no_other(traced: TracedSystem) -> None:
    """Periodic tasks may run in one window, hardly in all: what ran in every window is the message's walk."""
    sender, receiver = traced.users(2)
    chat_id = traced.direct_chat(sender, receiver)
    async with opened(traced.webs[0], sender) as out, opened(traced.webs[0], receiver) as back:
        await exchange(out, back, chat_id, 0)
        await asyncio.to_thread(traced.next_window)
        windows = []
        for number in range(1, WINDOWS + 1):
            await exchange(out, back, chat_id, number)
            windows.append(await asyncio.to_thread(traced.next_window))
    walk = sorted(set.intersection(*windows))
    assert len(walk) <= MAX_MODULES, "\n".join(walk)
    page = (PROJECT_ROOT / "docs" / "architecture.md").read_text()
    described = page[page.index("## The walk of a message") : page.index("These are 20 modules")]
    assert walk == sorted(set(re.findall(r"`([a-z_/]+\.py)`", described)))


async def exchange(out: Socket, back: Socket, chat_id: str, number: int) -> None:
    await out.send(chat_id, f"message {number}")
    await back.receive_until(lambda: len(back.messages) > number)
