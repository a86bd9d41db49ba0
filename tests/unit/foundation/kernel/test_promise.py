"""A promise, from the thread that makes it and the threads that wait."""

import threading

import pytest

from foundation.kernel.promise import Promise


def test_a_result_reaches_those_who_asked_before_and_after() -> None:
    promise: Promise[str] = Promise()
    heard: list[str] = []
    promise.add_done_callback(lambda done: heard.append(f"before {done.result()}"))
    assert not promise.done()
    promise.set_result("kept")
    promise.add_done_callback(lambda done: heard.append(f"after {done.result()}"))
    assert heard == ["before kept", "after kept"]
    assert promise.done()
    assert promise.exception() is None


def test_a_broken_promise_raises_its_reason() -> None:
    promise: Promise[str] = Promise()
    reason = ValueError("no")
    promise.set_exception(reason)
    assert promise.exception() is reason
    with pytest.raises(ValueError, match="no"):
        promise.result()


def test_it_is_settled_once() -> None:
    promise: Promise[str] = Promise()
    promise.set_result("first")
    with pytest.raises(RuntimeError):
        promise.set_result("second")
    with pytest.raises(RuntimeError):
        promise.set_exception(ValueError())
    assert promise.exception() is None


def test_a_wait_ends_in_time() -> None:
    with pytest.raises(TimeoutError):
        Promise[str]().result(timeout=0.01)


def test_many_threads_may_wait() -> None:
    promise: Promise[int] = Promise()
    found: list[int] = []
    waiting = [threading.Thread(target=lambda: found.append(promise.result(10))) for _ in range(8)]
    for thread in waiting:
        thread.start()
    promise.set_result(7)
    for thread in waiting:
        thread.join(10)
    assert found == [7] * 8


def test_one_who_fails_at_the_news_keeps_it_from_nobody(caplog: pytest.LogCaptureFixture) -> None:
    promise: Promise[str] = Promise()
    heard: list[str] = []
    promise.add_done_callback(lambda done: 1 / 0)
    promise.add_done_callback(lambda done: heard.append(done.result()))
    promise.set_result("kept")
    assert heard == ["kept"]
    assert "ZeroDivisionError" in caplog.text


def test_a_second_result_changes_nothing() -> None:
    promise: Promise[str] = Promise()
    promise.set_result("first")
    with pytest.raises(RuntimeError):
        promise.set_result("second")
    assert promise.result() == "first"
