"""The service loop: coroutines for threads."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from foundation.kernel.loops import ServiceLoop, shared_loop
from tests.doubles import eventually

THREADS = 8


@pytest.fixture
def loop() -> Iterator[ServiceLoop]:
    loop = ServiceLoop()
    yield loop
    loop.close()


async def thread_id() -> int:
    return threading.get_ident()


class TestRun:
    def test_the_result_comes_back_to_the_thread(self, loop: ServiceLoop) -> None:
        async def double(number: int) -> int:
            await asyncio.sleep(0)
            return number * 2

        assert loop.run(double(21)) == 42

    def test_an_exception_comes_back_too(self, loop: ServiceLoop) -> None:
        async def fail() -> None:
            raise ValueError("a reason")

        with pytest.raises(ValueError, match="a reason"):
            loop.run(fail())

    def test_threads_that_come_first_together_share_one_loop(self, loop: ServiceLoop) -> None:
        barrier = threading.Barrier(THREADS)

        def run() -> int:
            barrier.wait(10)
            return loop.run(thread_id())

        with ThreadPoolExecutor(THREADS) as threads:
            ids = {future.result(10) for future in [threads.submit(run) for _ in range(THREADS)]}
        assert len(ids) == 1
        assert threading.get_ident() not in ids

    def test_it_is_refused_on_the_thread_of_the_loop(self, loop: ServiceLoop) -> None:
        async def wait_for_itself() -> int:
            return loop.run(thread_id())

        with pytest.raises(RuntimeError, match="await the coroutine"):
            loop.run(wait_for_itself())

    def test_a_timeout_cancels_the_coroutine(self, loop: ServiceLoop) -> None:
        cancelled = threading.Event()

        async def hang() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        with pytest.raises(TimeoutError):
            loop.run(hang(), timeout=0.01)
        assert cancelled.wait(10)
        assert loop.run(thread_id())


class TestCallSoon:
    def test_the_function_is_called_on_the_loop(self, loop: ServiceLoop) -> None:
        found: list[int] = []
        loop.call_soon(lambda: found.append(threading.get_ident()))
        eventually(lambda: found)
        assert found == [loop.run(thread_id())]

    def test_it_is_called_here_once_the_loop_is_closed(self, loop: ServiceLoop) -> None:
        loop.run(thread_id())
        loop.close()
        found: list[int] = []
        loop.call_soon(found.append, 1)
        assert found == [1]


class TestClose:
    def test_it_waits_for_the_tasks_of_the_loop(self, loop: ServiceLoop) -> None:
        release, finished = asyncio.Event(), threading.Event()
        tasks: list[asyncio.Task[None]] = []

        async def work() -> None:
            await release.wait()
            finished.set()

        async def start() -> None:
            tasks.append(asyncio.ensure_future(work()))

        loop.run(start())
        closing = threading.Thread(target=loop.close)
        closing.start()
        closing.join(0.05)
        assert closing.is_alive()
        loop.call_soon(release.set)
        closing.join(10)
        assert not closing.is_alive()
        assert finished.is_set()

    def test_it_does_not_wait_longer_than_its_timeout(self, loop: ServiceLoop) -> None:
        async def start() -> asyncio.Task[bool]:
            return asyncio.ensure_future(asyncio.Event().wait())

        task = loop.run(start())
        loop.close(timeout=0.01)
        assert not task.done()
        with pytest.raises(RuntimeError, match="closed"):
            task.get_loop().call_soon(print)

    def test_closing_twice_or_unused_does_nothing(self) -> None:
        loop = ServiceLoop()
        loop.close()
        loop.run(thread_id())
        loop.close()
        loop.close()


class TestAttach:
    async def test_coroutines_run_on_the_loop_of_the_thread_that_attached(self) -> None:
        loop = ServiceLoop()
        loop.attach()
        assert await asyncio.to_thread(lambda: loop.run(thread_id())) == threading.get_ident()

    async def test_the_thread_of_an_attached_loop_must_await(self) -> None:
        loop = ServiceLoop()
        loop.attach()
        with pytest.raises(RuntimeError, match="await the coroutine"):
            loop.run(thread_id())

    async def test_closing_leaves_the_attached_loop_running(self) -> None:
        loop = ServiceLoop()
        loop.attach()
        await asyncio.to_thread(loop.close)
        assert await asyncio.to_thread(lambda: loop.run(thread_id())) == threading.get_ident()


def test_the_shared_loop_is_one() -> None:
    assert shared_loop().run(thread_id()) == shared_loop().run(thread_id())
