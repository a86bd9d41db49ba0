"""A partition: dense offsets, batches that are stored once, and the newest of them kept."""

import pytest

from engines.kafkalite.errors import Code, Refusal
from engines.kafkalite.log import MAX_PRODUCERS, SEQUENCES, Batch, Partition
from tests.unit.engines.kafkalite.batches import batch, offsets, packed

PLENTY = 1_000_000


@pytest.fixture
def partition() -> Partition:
    return Partition()


def refused(partition: Partition, one: Batch) -> Code:
    with pytest.raises(Refusal) as refusal:
        partition.append(one)
    return refusal.value.code


class TestOffsets:
    def test_they_are_dense_whatever_the_size_of_a_batch(self, partition: Partition) -> None:
        assert [partition.append(batch(count)) for count in (3, 1, 5, 2)] == [0, 3, 4, 9]
        assert (partition.start, partition.end) == (0, 11)

    def test_an_empty_partition_begins_and_ends_at_0(self, partition: Partition) -> None:
        assert (partition.start, partition.end) == (0, 0)
        assert partition.read(0, PLENTY) == b""

    def test_reading_begins_with_the_batch_that_holds_the_offset(self, partition: Partition) -> None:
        for count in (3, 1, 5):
            partition.append(batch(count))
        first = {offset: offsets(partition.read(offset, PLENTY))[:1] for offset in range(10)}
        assert first == {0: [0], 1: [0], 2: [0], 3: [3], 4: [4], 5: [4], 6: [4], 7: [4], 8: [4], 9: []}

    @pytest.mark.parametrize("offset", [-1, 1, 100])
    def test_nothing_is_read_outside(self, partition: Partition, offset: int) -> None:
        with pytest.raises(Refusal) as refusal:
            partition.read(offset, PLENTY)
        assert refusal.value.code == Code.OFFSET_OUT_OF_RANGE

    def test_only_whole_batches_are_read_and_at_least_one(self, partition: Partition) -> None:
        for _ in range(3):
            partition.append(batch())
        size = len(packed())
        assert offsets(partition.read(0, 2 * size + 1)) == [0, 1]
        assert offsets(partition.read(1, 1)) == [1]
        assert partition.read(1, size - 1, at_least_one=False) == b""
        assert offsets(partition.read(1, size, at_least_one=False)) == [1]

    def test_a_time_is_found_by_the_batch_that_reaches_it(self, partition: Partition) -> None:
        for at in (1000, 2000, 3000):
            partition.append(batch(2, at=at))
        assert [partition.offset_at(at) for at in (0, 1000, 1001, 3000, 3001)] == [0, 0, 2, 4, None]


class TestWhatIsKept:
    def test_the_oldest_go_when_there_is_too_much_and_offsets_stay(self) -> None:
        partition = Partition(max_bytes=10 * len(packed()))
        for number in range(1000):
            assert partition.append(batch()) == number
        assert partition.end == 1000
        assert 990 <= partition.start < 1000
        assert offsets(partition.read(partition.start, PLENTY)) == list(range(partition.start, 1000))
        assert (partition.offset_at(0), partition.offset_at(1001)) == (partition.start, None)
        with pytest.raises(Refusal):
            partition.read(partition.start - 1, PLENTY)

    def test_a_batch_larger_than_all_that_is_kept_is_kept_alone(self) -> None:
        partition = Partition(max_bytes=100)
        partition.append(batch())
        partition.append(batch(size=1000))
        assert offsets(partition.read(1, 1)) == [1]
        assert partition.start == 1


class TestProducers:
    def test_a_batch_that_is_repeated_has_the_offset_it_had(self, partition: Partition) -> None:
        first = [partition.append(batch(2, producer=7, sequence=sequence)) for sequence in (0, 2, 4, 6, 8)]
        again = [partition.append(batch(2, producer=7, sequence=sequence)) for sequence in (0, 2, 4, 6, 8)]
        assert first == again == [0, 2, 4, 6, 8]
        assert partition.end == 10

    def test_one_that_was_forgotten_is_a_duplicate_all_the_same(self, partition: Partition) -> None:
        for sequence in range(8):
            partition.append(batch(producer=7, sequence=sequence))
        assert refused(partition, batch(producer=7, sequence=0)) == Code.DUPLICATE_SEQUENCE_NUMBER
        assert partition.end == 8

    def test_a_gap_is_refused_and_what_fills_it_is_taken(self, partition: Partition) -> None:
        partition.append(batch(producer=7, sequence=0))
        assert refused(partition, batch(producer=7, sequence=2)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [partition.append(batch(producer=7, sequence=sequence)) for sequence in (1, 2)] == [1, 2]

    def test_producers_are_told_apart(self, partition: Partition) -> None:
        partition.append(batch(producer=7, sequence=0))
        assert partition.append(batch(producer=8, sequence=0)) == 1

    def test_a_sequence_goes_on_at_0_behind_the_largest(self, partition: Partition) -> None:
        partition.append(batch(2, producer=7, sequence=SEQUENCES - 2))
        assert partition.append(batch(producer=7, sequence=0)) == 2
        assert partition.append(batch(2, producer=7, sequence=SEQUENCES - 2)) == 0

    def test_a_newer_epoch_begins_anew_and_an_older_one_is_over(self, partition: Partition) -> None:
        partition.append(batch(producer=7, epoch=1, sequence=5))
        assert partition.append(batch(producer=7, epoch=2, sequence=0)) == 1
        assert refused(partition, batch(producer=7, epoch=1, sequence=6)) == Code.INVALID_PRODUCER_EPOCH

    def test_a_producer_that_is_not_known_may_begin_anywhere(self, partition: Partition) -> None:
        assert partition.append(batch(producer=7, sequence=500)) == 0
        assert partition.append(batch(producer=7, sequence=501)) == 1

    def test_only_so_many_are_remembered(self, partition: Partition) -> None:
        for producer in range(MAX_PRODUCERS + 1):
            partition.append(batch(producer=producer, sequence=0))
        before = partition.end
        partition.append(batch(producer=0, sequence=0))
        assert partition.end == before + 1
        assert partition.append(batch(producer=MAX_PRODUCERS, sequence=0)) == MAX_PRODUCERS


class TestWhatIsNoBatch:
    @pytest.mark.parametrize(
        "data",
        [
            b"",
            packed()[:-1],
            packed() + b"\0",
            packed() + packed(),
            packed()[:16] + b"\1" + packed()[17:],
            packed(count=0),
        ],
        ids=["nothing", "too short", "too long", "two", "an old form", "no message"],
    )
    def test_it_is_refused(self, data: bytes) -> None:
        with pytest.raises(Refusal) as refusal:
            Batch.read(data)
        assert refusal.value.code == Code.CORRUPT_MESSAGE
