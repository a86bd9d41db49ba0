"""Calls from any thread into the event loop."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from delivery.gateway.mailbox import Mailbox


def elsewhere(work: Callable[[], None]) -> None:
    """Done by another thread, while the loop stands still."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)


async def test_calls_of_many_threads_are_all_made_each_threads_in_order() -> None:
    mailbox, made = Mailbox(asyncio.get_running_loop()), list[tuple[int, int]]()
    everything = asyncio.Event()

    def note(thread: int, number: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        made.append((thread, number))
        if len(made) == 4 * 500:
            everything.set()

    def post(thread: int) -> None:
        for number in range(500):
            mailbox.post(note, thread, number)

    threads = [threading.Thread(target=post, args=[thread]) for thread in range(4)]
    for thread in threads:
        thread.start()
    await asyncio.wait_for(everything.wait(), 10)
    for each in range(4):
        assert [number for who, number in made if who == each] == list(range(500))


async def test_what_waits_is_done_at_one_wake_up() -> None:
    mailbox, made = Mailbox(asyncio.get_running_loop()), list[int]()

    def post() -> None:
        for number in range(3):
            mailbox.post(made.append, number)

    elsewhere(post)
    assert made == []
    await asyncio.sleep(0)
    assert made == [0, 1, 2]


async def test_a_call_from_the_loop_itself_is_made_at_once() -> None:
    mailbox, made = Mailbox(asyncio.get_running_loop()), list[int]()
    mailbox.post(made.append, 1)
    assert made == [1]


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_a_call_that_fails_is_logged_and_stops_no_other(where: str, caplog: pytest.LogCaptureFixture) -> None:
    mailbox, made = Mailbox(asyncio.get_running_loop()), list[int]()

    def post() -> None:
        mailbox.post(int, "not a number")
        mailbox.post(made.append, 1)

    post() if where == "here" else elsewhere(post)
    await asyncio.sleep(0)
    assert made == [1]
    assert "not a number" in caplog.text


def test_a_loop_that_is_gone_is_not_called() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    Mailbox(loop).post(pytest.fail, "nobody is there to be called")
