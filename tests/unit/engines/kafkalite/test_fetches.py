"""Who waits for news hears of it at once, of all of it, and once."""

import asyncio
from collections.abc import Sequence

import pytest

from engines.kafkalite.errors import Code
from engines.kafkalite.fetches import Fetches, Found, Wanted, look
from engines.kafkalite.log import Partition
from tests.unit.engines.kafkalite.batches import batch, offsets, packed

LONG = 20.0
PLENTY = 1_000_000


@pytest.fixture
def partitions() -> list[Partition]:
    return [Partition() for _ in range(3)]


def wanted(partitions: Sequence[Partition | None], offset: int = 0, max_bytes: int = PLENTY) -> list[Wanted]:
    return [Wanted("news", number, partition, offset, max_bytes) for number, partition in enumerate(partitions)]


class Asked:
    """A fetch, and its answers."""

    def __init__(self, fetches: Fetches, what: Sequence[Wanted], *, patience: float = LONG, min_bytes: int = 1) -> None:
        self.answers: list[list[Found]] = []
        self._heard = asyncio.Event()
        fetches.begin(what, patience=patience, min_bytes=min_bytes, max_bytes=PLENTY, answer=self._hear)

    def _hear(self, found: list[Found]) -> None:
        self.answers.append(found)
        self._heard.set()

    async def found(self) -> list[list[int]]:
        async with asyncio.timeout(LONG / 2):
            await self._heard.wait()
        assert len(self.answers) == 1
        return [offsets(one.data) for one in self.answers[0]]


async def test_what_is_there_is_answered_on_the_spot(partitions: list[Partition]) -> None:
    partitions[1].append(batch())
    asked = Asked(Fetches(), wanted(partitions))
    assert [[offsets(one.data) for one in found] for found in asked.answers] == [[[], [0], []]]


async def test_news_ends_the_wait_of_everybody_who_wants_it(partitions: list[Partition]) -> None:
    fetches = Fetches()
    both = [Asked(fetches, wanted(partitions)), Asked(fetches, wanted(partitions[:2]))]
    other = Asked(fetches, wanted(partitions[2:]))
    partitions[0].append(batch())
    fetches.tell(partitions[0])
    assert [await one.found() for one in both] == [[[0], [], []], [[0], []]]
    assert other.answers == []


async def test_what_comes_at_the_same_time_comes_in_one_answer(partitions: list[Partition]) -> None:
    fetches = Fetches()
    asked = Asked(fetches, wanted(partitions))
    for partition in partitions:
        partition.append(batch())
        fetches.tell(partition)
    assert await asked.found() == [[0], [0], [0]]


async def test_an_answer_is_given_once(partitions: list[Partition]) -> None:
    fetches = Fetches(rest=0.0)
    asked = Asked(fetches, wanted(partitions))
    for _ in range(3):
        partitions[0].append(batch())
        fetches.tell(partitions[0])
        await asked.found()
    assert len(asked.answers) == 1


async def test_who_loses_patience_while_news_rests_is_answered_once_too(partitions: list[Partition]) -> None:
    fetches = Fetches(rest=0.01)
    hasty, patient = Asked(fetches, wanted(partitions), patience=0.001), Asked(fetches, wanted(partitions))
    partitions[0].append(batch())
    fetches.tell(partitions[0])
    assert await hasty.found() == await patient.found() == [[0], [], []]
    assert len(hasty.answers) == 1


async def test_when_patience_ends_the_answer_is_empty(partitions: list[Partition]) -> None:
    asked = Asked(Fetches(), wanted(partitions), patience=0.001)
    assert asked.answers == []
    assert await asked.found() == [[], [], []]


async def test_without_patience_it_is_empty_on_the_spot(partitions: list[Partition]) -> None:
    assert len(Asked(Fetches(), wanted(partitions), patience=0.0).answers) == 1


async def test_too_little_is_no_news(partitions: list[Partition]) -> None:
    fetches = Fetches(rest=0.0)
    asked = Asked(fetches, wanted(partitions), min_bytes=2 * len(packed()))
    partitions[0].append(batch())
    fetches.tell(partitions[0])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert asked.answers == []
    partitions[1].append(batch())
    fetches.tell(partitions[1])
    assert await asked.found() == [[0], [0], []]


@pytest.mark.parametrize(
    ("partition", "code"), [(None, Code.UNKNOWN_TOPIC_OR_PARTITION), (0, Code.OFFSET_OUT_OF_RANGE)]
)
async def test_what_is_wrong_is_told_on_the_spot(
    partitions: list[Partition], partition: int | None, code: Code
) -> None:
    strange = None if partition is None else partitions[partition]
    asked = Asked(Fetches(), [Wanted("news", 9, strange, 5, PLENTY), *wanted(partitions[1:])])
    assert [one.code for one in asked.answers[0]] == [code, Code.NONE, Code.NONE]


def test_all_partitions_together_hold_to_the_limit_but_for_the_first_batch(partitions: list[Partition]) -> None:
    for partition in partitions:
        for _ in range(3):
            partition.append(batch())
    size = len(packed())

    def found(limit: int) -> list[list[int]]:
        return [offsets(one.data) for one in look(wanted(partitions), limit)]

    assert found(4 * size) == [[0, 1, 2], [0], []]
    assert found(size - 1) == [[0], [], []]
    assert found(PLENTY) == [[0, 1, 2]] * 3
