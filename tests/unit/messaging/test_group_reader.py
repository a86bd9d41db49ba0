import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from messaging.errors import Overloaded
from messaging.services.group_reader import GroupReader
from tests.doubles import eventually


class Source:
    """A slow store: each read takes a snapshot when it begins and ends when it is let go."""

    def __init__(self) -> None:
        self.value = 0
        self.reads: list[tuple[str, list[int]]] = []
        self.gate = threading.Semaphore(0)

    def read(self, key: str, questions: Sequence[int]) -> list[int | Exception]:
        snapshot = self.value
        self.reads.append((key, list(questions)))
        assert self.gate.acquire(timeout=10)
        return [ValueError("no") if question < 0 else snapshot for question in questions]


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def reader(source: Source) -> Iterator[GroupReader[str, int, int]]:
    with ThreadPoolExecutor(2) as executor:
        yield GroupReader(source.read, executor=executor)
        source.gate.release(100)


class TestSharing:
    def test_a_question_asked_during_a_read_is_answered_by_a_later_one(
        self, source: Source, reader: GroupReader[str, int, int]
    ) -> None:
        early = reader.ask("chat", 1)
        eventually(lambda: len(source.reads) == 1)
        source.value = 1
        late = reader.ask("chat", 2)
        source.gate.release()
        assert early.result(10) == 0
        source.gate.release()
        assert late.result(10) == 1

    def test_all_who_wait_share_one_read(self, source: Source, reader: GroupReader[str, int, int]) -> None:
        first = reader.ask("chat", 0)
        eventually(lambda: len(source.reads) == 1)
        others = [reader.ask("chat", number) for number in range(1, 1001)]
        source.gate.release(2)
        assert first.result(10) == 0
        assert {other.result(10) for other in others} == {0}
        assert source.reads == [("chat", [0]), ("chat", list(range(1, 1001)))]

    def test_reads_of_one_key_never_overlap_and_other_keys_do_not_wait(
        self, source: Source, reader: GroupReader[str, int, int]
    ) -> None:
        futures = [reader.ask("a", 1)]
        eventually(lambda: len(source.reads) == 1)
        futures += [reader.ask("a", 2), reader.ask("b", 3)]
        eventually(lambda: len(source.reads) == 2)
        assert source.reads == [("a", [1]), ("b", [3])]
        source.gate.release(3)
        for future in futures:
            future.result(10)

    def test_nothing_is_kept_beyond_a_read(self, source: Source, reader: GroupReader[str, int, int]) -> None:
        source.gate.release(2)
        assert reader.ask("chat", 1).result(10) == 0
        source.value = 5
        assert reader.ask("chat", 1).result(10) == 5


class TestFailures:
    def test_one_askers_failure_is_not_the_others(self, source: Source, reader: GroupReader[str, int, int]) -> None:
        opening = reader.ask("chat", 0)
        eventually(lambda: len(source.reads) == 1)
        good, bad = reader.ask("chat", 1), reader.ask("chat", -1)
        source.gate.release(2)
        opening.result(10)
        assert good.result(10) == 0
        with pytest.raises(ValueError, match="no"):
            bad.result(10)

    def test_a_read_that_fails_fails_everyone_who_shared_it_and_the_next_is_fresh(self) -> None:
        failures = [RuntimeError("away")]

        def read(key: str, questions: Sequence[int]) -> list[int | Exception]:
            if failures:
                raise failures.pop()
            return [7]

        with ThreadPoolExecutor(1) as executor:
            reader: GroupReader[str, int, int] = GroupReader(read, executor=executor)
            with pytest.raises(RuntimeError, match="away"):
                reader.ask("chat", 1).result(10)
            assert reader.ask("chat", 1).result(10) == 7

    def test_after_shutdown_a_question_fails_instead_of_hanging(self) -> None:
        executor = ThreadPoolExecutor(1)
        reader: GroupReader[str, int, int] = GroupReader(lambda key, questions: [1], executor=executor)
        executor.shutdown()
        with pytest.raises(Overloaded):
            reader.ask("chat", 1).result(10)
        with pytest.raises(Overloaded):
            reader.ask("chat", 1).result(10)
