"""The event loop of a process's asynchronous services, and the one way in for its threads."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

RUN_TIMEOUT = 60.0
"""Seconds. Longer than any service takes with its own timeouts and retries: only a stuck loop exceeds it."""


class ServiceLoop:
    """Runs coroutines for threads. `web` lends its own loop by `attach`; elsewhere a thread runs one from first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id: int | None = None
        self._own_thread: threading.Thread | None = None

    def attach(self) -> None:
        """Use this thread's event loop. Call it before the first `run`."""
        self._loop, self._thread_id = asyncio.get_event_loop(), threading.get_ident()

    def run(self, coroutine: Coroutine[Any, Any, T], *, timeout: float = RUN_TIMEOUT) -> T:
        """Run a coroutine on the loop and wait for its result. For threads: raises `RuntimeError` on the loop itself.

        Raises `TimeoutError` and cancels the coroutine when it takes longer than `timeout`.
        """
        if threading.get_ident() == self._thread_id:
            coroutine.close()
            raise RuntimeError("await the coroutine: this thread runs the loop and would wait for itself")
        future = self.submit(coroutine)
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start a coroutine on the loop, from any thread. Cancelling the future cancels the coroutine."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._running())

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function on the loop, from any thread. Once the loop is closed, call it here."""
        try:
            self._running().call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            function(*arguments)

    def close(self, timeout: float = 5.0) -> None:
        """Stop the loop that `run` started, when its tasks are done; a loop that was attached is left running."""
        thread, loop = self._own_thread, self._loop
        if thread is None or loop is None or not thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(_stop_when_idle(timeout), loop)
        thread.join(timeout + 1.0)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._own_thread = threading.Thread(target=_serve, args=[self._loop], name="services", daemon=True)
                self._own_thread.start()
                self._thread_id = self._own_thread.ident
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


_shared = ServiceLoop()


def shared_loop() -> ServiceLoop:
    """The loop of commands and tests, which have no other."""
    return _shared


async def _stop_when_idle(seconds: float) -> None:
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=seconds)
    asyncio.get_running_loop().stop()
