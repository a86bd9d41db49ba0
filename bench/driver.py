"""Runs a workload's clients in one process or several: all connect, all start, all stop.

The first shard runs in this process, which also measures; each further shard runs in a process of its own. Their
clocks are comparable: `perf_counter` is system-wide.
"""

import asyncio
import multiprocessing
import traceback
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from multiprocessing.connection import Connection
from typing import Any, Generic, Protocol, TypeVar

import uvloop

from bench.processes import ClientProcesses
from bench.window import Window

Shard = TypeVar("Shard")
Result = TypeVar("Result")

READY, START, STOP = "ready", "start", "stop"


class Signals:
    """Coordinates one client: it awaits `ready()` once connected, then runs until `stopped` is set."""

    def __init__(self) -> None:
        self.is_ready = asyncio.Event()
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()

    async def ready(self) -> None:
        """Return when all clients are ready."""
        self.is_ready.set()
        await self.started.wait()


RunClient = Callable[[Shard, Signals], Coroutine[Any, Any, Result]]


class Measured(Protocol):
    """A deployment that can measure a window and counts the client processes' CPU."""

    @property
    def clients(self) -> ClientProcesses: ...

    def measure_window(self) -> AbstractAsyncContextManager[Window]: ...


async def run_clients(
    deployment: Measured, run: RunClient[Shard, Result], shards: Sequence[Shard], *, warm_up: float, seconds: float
) -> tuple[list[Result], Window]:
    """Run each shard in a process, and measure a window of `seconds` after the warm-up."""
    signals, others = Signals(), [ClientProcess(run, shard) for shard in shards[1:]]
    try:
        with deployment.clients.including([other.pid for other in others]):
            own = asyncio.create_task(run(shards[0], signals))
            await wait_unless_failed(own, signals.is_ready.wait())
            for other in others:
                await other.expect(READY)
            _broadcast(others, START)
            signals.started.set()
            await wait_unless_failed(own, asyncio.sleep(warm_up))
            async with deployment.measure_window() as window:
                await wait_unless_failed(own, asyncio.sleep(seconds))
            _broadcast(others, STOP)
            signals.stopped.set()
            return [await own, *[await other.result() for other in others]], window
    finally:
        for other in others:
            other.close()


class ClientProcess(Generic[Shard, Result]):
    """Runs a shard in another process, which ends with this one."""

    def __init__(self, run_client: RunClient[Shard, Result], shard: Shard) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, remote = context.Pipe()
        self._process = context.Process(target=_run_in_process, args=(remote, run_client, shard), daemon=True)
        self._process.start()
        remote.close()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def send(self, signal: str) -> None:
        self._pipe.send(signal)

    async def expect(self, signal: str) -> None:
        answer = await self.result()
        if answer != signal:
            raise RuntimeError(f"a client process sent {answer!r} instead of {signal!r}")

    async def result(self) -> Any:
        answer = await asyncio.to_thread(self._pipe.recv)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        self._pipe.close()
        self._process.terminate()
        self._process.join()


def _broadcast(processes: Sequence[ClientProcess[Any, Any]], signal: str) -> None:
    for process in processes:
        process.send(signal)


async def wait_unless_failed(client: "asyncio.Task[Any]", wait: Coroutine[Any, Any, Any]) -> None:
    """Await `wait`, but raise at once if the client ends first."""
    waiting = asyncio.ensure_future(wait)
    await asyncio.wait((client, waiting), return_when=asyncio.FIRST_COMPLETED)
    if client.done() and not waiting.done():
        waiting.cancel()
        client.result()
        raise RuntimeError("a client ended before it was stopped")


def _run_in_process(pipe: Connection, run_client: RunClient[Shard, Result], shard: Shard) -> None:
    uvloop.run(_run_remote(pipe, run_client, shard))


async def _run_remote(pipe: Connection, run_client: RunClient[Shard, Result], shard: Shard) -> None:
    signals = Signals()

    async def relay_signals() -> None:
        await signals.is_ready.wait()
        pipe.send(READY)
        for event in (signals.started, signals.stopped):
            await asyncio.to_thread(pipe.recv)
            event.set()

    relay = asyncio.create_task(relay_signals())
    try:
        pipe.send(await run_client(shard, signals))
    except Exception as error:  # noqa: BLE001 - the first process reports every failure
        pipe.send(RuntimeError("".join(traceback.format_exception(error))))
    finally:
        relay.cancel()
