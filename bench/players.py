"""A workload's client side in one process or several: all connect, then all begin, then all stop.

The first player is this process, which also meters; the others are started for the occasion. Their clocks are one.
"""

import asyncio
import multiprocessing
import traceback
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from multiprocessing.connection import Connection
from typing import Any, Generic, Protocol, TypeVar

import uvloop

from bench.meter import Meter
from bench.processes import ClientProcesses

Part = TypeVar("Part")
Result = TypeVar("Result")

READY, GO, STOP = "ready", "go", "stop"


class Cue:
    """A player's signs: `await cue.ready()` once connected, play until `cue.stopped` is set."""

    def __init__(self) -> None:
        self.is_ready = asyncio.Event()
        self.go = asyncio.Event()
        self.stopped = asyncio.Event()

    async def ready(self) -> None:
        """Return when everybody is."""
        self.is_ready.set()
        await self.go.wait()


Play = Callable[[Part, Cue], Coroutine[Any, Any, Result]]


class Metered(Protocol):
    """What is played on: it knows what its processes use, and which are the client's."""

    @property
    def clients(self) -> ClientProcesses: ...

    def metering(self) -> AbstractAsyncContextManager[Meter]: ...


async def perform(
    stage: Metered, play: Play[Part, Result], parts: Sequence[Part], *, warm_up: float, seconds: float
) -> tuple[list[Result], Meter]:
    """Each part played by a process of its own, and the meter of the window after the warm-up."""
    cue, others = Cue(), [_Other(play, part) for part in parts[1:]]
    try:
        with stage.clients.joined_by([other.pid for other in others]):
            own = asyncio.create_task(play(parts[0], cue))
            await unless_failed(own, cue.is_ready.wait())
            for other in others:
                await other.expect(READY)
            _tell(others, GO)
            cue.go.set()
            await unless_failed(own, asyncio.sleep(warm_up))
            async with stage.metering() as meter:
                await unless_failed(own, asyncio.sleep(seconds))
            _tell(others, STOP)
            cue.stopped.set()
            return [await own, *[await other.result() for other in others]], meter
    finally:
        for other in others:
            other.close()


class _Other(Generic[Part, Result]):
    """A player in another process, which ends with this one."""

    def __init__(self, play: Play[Part, Result], part: Part) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_play_elsewhere, args=(theirs, play, part), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def tell(self, word: str) -> None:
        self._pipe.send(word)

    async def expect(self, word: str) -> None:
        answer = await self.result()
        if answer != word:
            raise RuntimeError(f"a client process said {answer!r} and not {word!r}")

    async def result(self) -> Any:
        answer = await asyncio.to_thread(self._pipe.recv)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        self._pipe.close()
        self._process.terminate()
        self._process.join()


def _tell(others: Sequence[_Other[Any, Any]], word: str) -> None:
    for other in others:
        other.tell(word)


async def unless_failed(own: "asyncio.Task[Any]", wait: Coroutine[Any, Any, Any]) -> None:
    """Wait, but not for a player that has already failed."""
    waiting = asyncio.ensure_future(wait)
    await asyncio.wait((own, waiting), return_when=asyncio.FIRST_COMPLETED)
    if own.done() and not waiting.done():
        waiting.cancel()
        own.result()
        raise RuntimeError("a client ended before it was told to")


def _play_elsewhere(pipe: Connection, play: Play[Part, Result], part: Part) -> None:
    uvloop.run(_follow(pipe, play, part))


async def _follow(pipe: Connection, play: Play[Part, Result], part: Part) -> None:
    cue = Cue()

    async def obey() -> None:
        await cue.is_ready.wait()
        pipe.send(READY)
        for sign in (cue.go, cue.stopped):
            await asyncio.to_thread(pipe.recv)
            sign.set()

    obeying = asyncio.create_task(obey())
    try:
        pipe.send(await play(part, cue))
    except Exception as error:  # noqa: BLE001 - whatever it is, the first process has to know
        pipe.send(RuntimeError("".join(traceback.format_exception(error))))
    finally:
        obeying.cancel()
