"""A waiting fetch gets one response, as soon as there are enough records."""

import asyncio
from collections.abc import Sequence

import pytest

from engines.kafkalite.errors import ErrorCode
from engines.kafkalite.fetches import Fetches, FetchResult, PartitionFetch, read_all
from engines.kafkalite.log import Partition
from tests.unit.engines.kafkalite.batches import batch, offsets, packed

TIMEOUT = 20.0
NO_LIMIT = 1_000_000


@pytest.fixture
def partitions() -> list[Partition]:
    return [Partition() for _ in range(3)]


def requests(
    partitions: Sequence[Partition | None], offset: int = 0, max_bytes: int = NO_LIMIT
) -> list[PartitionFetch]:
    return [PartitionFetch("news", number, partition, offset, max_bytes) for number, partition in enumerate(partitions)]


class Fetch:
    """A fetch and its responses."""

    def __init__(
        self, fetches: Fetches, requests: Sequence[PartitionFetch], *, max_wait: float = TIMEOUT, min_bytes: int = 1
    ) -> None:
        self.responses: list[list[FetchResult]] = []
        self._responded = asyncio.Event()
        fetches.start(requests, max_wait=max_wait, min_bytes=min_bytes, max_bytes=NO_LIMIT, respond=self._on_response)

    def _on_response(self, found: list[FetchResult]) -> None:
        self.responses.append(found)
        self._responded.set()

    async def found(self) -> list[list[int]]:
        async with asyncio.timeout(TIMEOUT / 2):
            await self._responded.wait()
        assert len(self.responses) == 1
        return [offsets(result.data) for result in self.responses[0]]


async def test_records_that_exist_are_returned_at_once(partitions: list[Partition]) -> None:
    partitions[1].append(batch())
    fetch = Fetch(Fetches(), requests(partitions))
    assert [[offsets(result.data) for result in found] for found in fetch.responses] == [[[], [0], []]]


async def test_a_new_record_completes_every_fetch_of_its_partition(partitions: list[Partition]) -> None:
    fetches = Fetches()
    both = [Fetch(fetches, requests(partitions)), Fetch(fetches, requests(partitions[:2]))]
    other = Fetch(fetches, requests(partitions[2:]))
    partitions[0].append(batch())
    fetches.notify(partitions[0])
    assert [await one.found() for one in both] == [[[0], [], []], [[0], []]]
    assert other.responses == []


async def test_records_that_arrive_together_share_a_response(partitions: list[Partition]) -> None:
    fetches = Fetches()
    fetch = Fetch(fetches, requests(partitions))
    for partition in partitions:
        partition.append(batch())
        fetches.notify(partition)
    assert await fetch.found() == [[0], [0], [0]]


async def test_a_fetch_is_answered_once(partitions: list[Partition]) -> None:
    fetches = Fetches(linger=0.0)
    fetch = Fetch(fetches, requests(partitions))
    for _ in range(3):
        partitions[0].append(batch())
        fetches.notify(partitions[0])
        await fetch.found()
    assert len(fetch.responses) == 1


async def test_a_fetch_that_times_out_while_it_lingers_is_answered_once(partitions: list[Partition]) -> None:
    fetches = Fetches(linger=0.01)
    short, long = Fetch(fetches, requests(partitions), max_wait=0.001), Fetch(fetches, requests(partitions))
    partitions[0].append(batch())
    fetches.notify(partitions[0])
    assert await short.found() == await long.found() == [[0], [], []]
    assert len(short.responses) == 1


async def test_after_the_maximum_wait_the_response_is_empty(partitions: list[Partition]) -> None:
    fetch = Fetch(Fetches(), requests(partitions), max_wait=0.001)
    assert fetch.responses == []
    assert await fetch.found() == [[], [], []]


async def test_without_a_wait_the_response_is_empty_at_once(partitions: list[Partition]) -> None:
    assert len(Fetch(Fetches(), requests(partitions), max_wait=0.0).responses) == 1


async def test_a_fetch_waits_for_its_minimum_of_bytes(partitions: list[Partition]) -> None:
    fetches = Fetches(linger=0.0)
    fetch = Fetch(fetches, requests(partitions), min_bytes=2 * len(packed()))
    partitions[0].append(batch())
    fetches.notify(partitions[0])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert fetch.responses == []
    partitions[1].append(batch())
    fetches.notify(partitions[1])
    assert await fetch.found() == [[0], [0], []]


@pytest.mark.parametrize(
    ("partition", "code"), [(None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (0, ErrorCode.OFFSET_OUT_OF_RANGE)]
)
async def test_an_error_is_returned_at_once(
    partitions: list[Partition], partition: int | None, code: ErrorCode
) -> None:
    invalid = None if partition is None else partitions[partition]
    fetch = Fetch(Fetches(), [PartitionFetch("news", 9, invalid, 5, NO_LIMIT), *requests(partitions[1:])])
    assert [result.code for result in fetch.responses[0]] == [code, ErrorCode.NONE, ErrorCode.NONE]


def test_the_byte_limit_holds_for_all_partitions_except_for_the_first_batch(partitions: list[Partition]) -> None:
    for partition in partitions:
        for _ in range(3):
            partition.append(batch())
    size = len(packed())

    def found(limit: int) -> list[list[int]]:
        return [offsets(result.data) for result in read_all(requests(partitions), limit)]

    assert found(4 * size) == [[0, 1, 2], [0], []]
    assert found(size - 1) == [[0], [], []]
    assert found(NO_LIMIT) == [[0, 1, 2]] * 3
