import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from foundation.kernel.errors import Overloaded
from messaging.services import group_reader
from messaging.services.group_reader import GroupReader


class Source:
    """A slow store: each read takes a snapshot when it begins and ends when the gate lets it."""

    def __init__(self) -> None:
        self.value = 0
        self.reads: list[tuple[str, list[int]]] = []
        self._has_begun = asyncio.Condition()
        self._gate = asyncio.Semaphore(0)

    async def read(self, key: str, questions: Sequence[int]) -> list[int | Exception]:
        snapshot = self.value
        async with self._has_begun:
            self.reads.append((key, list(questions)))
            self._has_begun.notify_all()
        await self._gate.acquire()
        return [ValueError("no") if question < 0 else snapshot for question in questions]

    def finish(self, reads: int = 1) -> None:
        for _ in range(reads):
            self._gate.release()

    async def has_begun(self, reads: int) -> None:
        async with self._has_begun, asyncio.timeout(10):
            await self._has_begun.wait_for(lambda: len(self.reads) >= reads)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
async def reader(source: Source) -> AsyncIterator[GroupReader[str, int, int]]:
    reader = GroupReader(source.read, limit=2)
    yield reader
    source.finish(100)
    await reader.close()


class TestSharing:
    async def test_a_question_asked_during_a_read_is_answered_by_a_later_one(
        self, source: Source, reader: GroupReader[str, int, int]
    ) -> None:
        early = reader.ask("chat", 1)
        await source.has_begun(1)
        source.value = 1
        late = reader.ask("chat", 2)
        source.finish()
        assert await early == 0
        source.finish()
        assert await late == 1

    async def test_all_waiting_questions_share_one_read(
        self, source: Source, reader: GroupReader[str, int, int]
    ) -> None:
        first = reader.ask("chat", 0)
        await source.has_begun(1)
        others = [reader.ask("chat", number) for number in range(1, 1001)]
        source.finish(2)
        assert await first == 0
        assert set(await asyncio.gather(*others)) == {0}
        assert source.reads == [("chat", [0]), ("chat", list(range(1, 1001)))]

    async def test_questions_that_a_read_does_not_admit_wait_in_order_for_the_next(self, source: Source) -> None:
        def at_most_two() -> Callable[[int], bool]:
            admitted: set[int] = set()

            def admits(question: int) -> bool:
                if len(admitted) < 2:
                    admitted.add(question)
                return question in admitted

            return admits

        reader = GroupReader(source.read, limit=2, admission=at_most_two)
        asked = [reader.ask("chat", number) for number in (1, 2, 3, 1, 4, 5)]
        source.finish(3)
        await asyncio.gather(*asked)
        assert source.reads == [("chat", [1, 2, 1]), ("chat", [3, 4]), ("chat", [5])]

    async def test_reads_of_one_key_never_overlap_and_other_keys_do_not_wait(
        self, source: Source, reader: GroupReader[str, int, int]
    ) -> None:
        futures = [reader.ask("a", 1)]
        await source.has_begun(1)
        futures += [reader.ask("a", 2), reader.ask("b", 3)]
        await source.has_begun(2)
        assert source.reads == [("a", [1]), ("b", [3])]
        source.finish(3)
        await asyncio.gather(*futures)

    async def test_no_more_reads_run_than_the_limit(self, source: Source, reader: GroupReader[str, int, int]) -> None:
        futures = [reader.ask(key, 1) for key in ("a", "b", "c")]
        await source.has_begun(2)
        futures.append(reader.ask("c", 2))
        source.finish()
        await source.has_begun(3)
        assert source.reads == [("a", [1]), ("b", [1]), ("c", [1, 2])], "a question may join until the read begins"
        source.finish(2)
        await asyncio.gather(*futures)

    async def test_nothing_is_kept_beyond_a_read(self, source: Source, reader: GroupReader[str, int, int]) -> None:
        source.finish(2)
        assert await reader.ask("chat", 1) == 0
        source.value = 5
        assert await reader.ask("chat", 1) == 5


class TestFailures:
    async def test_one_askers_failure_is_not_the_others(
        self, source: Source, reader: GroupReader[str, int, int]
    ) -> None:
        opening = reader.ask("chat", 0)
        await source.has_begun(1)
        good, bad = reader.ask("chat", 1), reader.ask("chat", -1)
        source.finish(2)
        await opening
        assert await good == 0
        with pytest.raises(ValueError, match="no"):
            await bad

    async def test_a_cancelled_asker_does_not_break_the_read_of_the_others(
        self, source: Source, reader: GroupReader[str, int, int]
    ) -> None:
        cancelled, other = reader.ask("chat", 1), reader.ask("chat", 2)
        await source.has_begun(1)
        cancelled.cancel()
        source.finish(2)
        assert await other == 0
        assert await reader.ask("chat", 3) == 0

    async def test_a_read_that_fails_fails_every_question_that_shares_it_and_the_next_is_fresh(self) -> None:
        failures = [RuntimeError("no answer")]

        async def read(key: str, questions: Sequence[int]) -> list[int | Exception]:
            if failures:
                raise failures.pop()
            return [7]

        reader: GroupReader[str, int, int] = GroupReader(read, limit=1)
        shared = [reader.ask("chat", number) for number in range(3)]
        answers = await asyncio.gather(*shared, return_exceptions=True)
        assert [str(answer) for answer in answers] == ["no answer"] * 3
        assert await reader.ask("chat", 1) == 7


class TestClosing:
    async def test_close_finishes_the_questions_that_were_asked_and_refuses_later_ones(
        self, source: Source, reader: GroupReader[str, int, int]
    ) -> None:
        reading = reader.ask("chat", 1)
        await source.has_begun(1)
        waiting = reader.ask("chat", 2)
        source.finish(2)
        await reader.close()
        assert (reading.result(), waiting.result()) == (0, 0)
        with pytest.raises(Overloaded):
            reader.ask("chat", 3)

    async def test_close_does_not_wait_for_a_store_that_hangs(
        self, source: Source, reader: GroupReader[str, int, int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(group_reader, "CLOSE_TIMEOUT", 0.01)
        reading = reader.ask("chat", 1)
        await source.has_begun(1)
        await reader.close()
        assert not reading.done()
        source.finish()
        assert await reading == 0
