"""The log of a partition: dense offsets, deduplication, retention by size."""

import pytest

from engines.kafkalite.errors import ErrorCode, KafkaError
from engines.kafkalite.log import MAX_PRODUCERS, SEQUENCES, Batch, Partition
from tests.unit.engines.kafkalite.batches import batch, offsets, packed

NO_LIMIT = 1_000_000


@pytest.fixture
def partition() -> Partition:
    return Partition()


def append_error(partition: Partition, batch: Batch) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        partition.append(batch)
    return raised.value.code


class TestOffsets:
    def test_they_are_dense_whatever_the_size_of_a_batch(self, partition: Partition) -> None:
        assert [partition.append(batch(count)) for count in (3, 1, 5, 2)] == [0, 3, 4, 9]
        assert (partition.start, partition.end) == (0, 11)

    def test_an_empty_partition_starts_and_ends_at_0(self, partition: Partition) -> None:
        assert (partition.start, partition.end) == (0, 0)
        assert partition.read(0, NO_LIMIT) == b""

    def test_a_read_starts_with_the_batch_that_contains_the_offset(self, partition: Partition) -> None:
        for count in (3, 1, 5):
            partition.append(batch(count))
        first = {offset: offsets(partition.read(offset, NO_LIMIT))[:1] for offset in range(10)}
        assert first == {0: [0], 1: [0], 2: [0], 3: [3], 4: [4], 5: [4], 6: [4], 7: [4], 8: [4], 9: []}

    @pytest.mark.parametrize("offset", [-1, 1, 100])
    def test_an_offset_outside_of_the_log_is_out_of_range(self, partition: Partition, offset: int) -> None:
        with pytest.raises(KafkaError) as raised:
            partition.read(offset, NO_LIMIT)
        assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_only_whole_batches_are_read_and_at_least_one(self, partition: Partition) -> None:
        for _ in range(3):
            partition.append(batch())
        size = len(packed())
        assert offsets(partition.read(0, 2 * size + 1)) == [0, 1]
        assert offsets(partition.read(1, 1)) == [1]
        assert partition.read(1, size - 1, at_least_one=False) == b""
        assert offsets(partition.read(1, size, at_least_one=False)) == [1]

    def test_a_timestamp_gives_the_first_batch_that_reaches_it(self, partition: Partition) -> None:
        for at in (1000, 2000, 3000):
            partition.append(batch(2, at=at))
        assert [partition.offset_for_timestamp(at) for at in (0, 1000, 1001, 3000, 3001)] == [0, 0, 2, 4, None]


class TestRetention:
    def test_the_oldest_batches_are_removed_and_offsets_stay(self) -> None:
        partition = Partition(max_bytes=10 * len(packed()))
        for number in range(1000):
            assert partition.append(batch()) == number
        assert partition.end == 1000
        assert 990 <= partition.start < 1000
        assert offsets(partition.read(partition.start, NO_LIMIT)) == list(range(partition.start, 1000))
        assert (partition.offset_for_timestamp(0), partition.offset_for_timestamp(1001)) == (partition.start, None)
        with pytest.raises(KafkaError):
            partition.read(partition.start - 1, NO_LIMIT)

    def test_a_batch_larger_than_the_limit_is_kept_alone(self) -> None:
        partition = Partition(max_bytes=100)
        partition.append(batch())
        partition.append(batch(size=1000))
        assert offsets(partition.read(1, 1)) == [1]
        assert partition.start == 1


class TestIdempotentProducers:
    def test_a_retried_batch_keeps_its_offset(self, partition: Partition) -> None:
        first = [partition.append(batch(2, producer=7, sequence=sequence)) for sequence in (0, 2, 4, 6, 8)]
        again = [partition.append(batch(2, producer=7, sequence=sequence)) for sequence in (0, 2, 4, 6, 8)]
        assert first == again == [0, 2, 4, 6, 8]
        assert partition.end == 10

    def test_an_old_retry_is_a_duplicate(self, partition: Partition) -> None:
        for sequence in range(8):
            partition.append(batch(producer=7, sequence=sequence))
        assert append_error(partition, batch(producer=7, sequence=0)) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        assert partition.end == 8

    def test_a_gap_is_out_of_order_and_the_missing_batch_is_accepted(self, partition: Partition) -> None:
        partition.append(batch(producer=7, sequence=0))
        assert append_error(partition, batch(producer=7, sequence=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [partition.append(batch(producer=7, sequence=sequence)) for sequence in (1, 2)] == [1, 2]

    def test_each_producer_has_its_own_sequence(self, partition: Partition) -> None:
        partition.append(batch(producer=7, sequence=0))
        assert partition.append(batch(producer=8, sequence=0)) == 1

    def test_a_sequence_wraps_around_to_0(self, partition: Partition) -> None:
        partition.append(batch(2, producer=7, sequence=SEQUENCES - 2))
        assert partition.append(batch(producer=7, sequence=0)) == 2
        assert partition.append(batch(2, producer=7, sequence=SEQUENCES - 2)) == 0

    def test_a_newer_epoch_starts_again_and_fences_the_older_one(self, partition: Partition) -> None:
        partition.append(batch(producer=7, epoch=1, sequence=5))
        assert partition.append(batch(producer=7, epoch=2, sequence=0)) == 1
        assert append_error(partition, batch(producer=7, epoch=1, sequence=6)) == ErrorCode.INVALID_PRODUCER_EPOCH

    def test_an_unknown_producer_may_start_with_any_sequence(self, partition: Partition) -> None:
        assert partition.append(batch(producer=7, sequence=500)) == 0
        assert partition.append(batch(producer=7, sequence=501)) == 1

    def test_the_number_of_known_producers_is_bounded(self, partition: Partition) -> None:
        for producer in range(MAX_PRODUCERS + 1):
            partition.append(batch(producer=producer, sequence=0))
        before = partition.end
        partition.append(batch(producer=0, sequence=0))
        assert partition.end == before + 1
        assert partition.append(batch(producer=MAX_PRODUCERS, sequence=0)) == MAX_PRODUCERS


class TestInvalidBatches:
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
        ids=["empty", "too short", "too long", "two batches", "old format", "no records"],
    )
    def test_they_are_corrupt(self, data: bytes) -> None:
        with pytest.raises(KafkaError) as raised:
            Batch.read(data)
        assert raised.value.code == ErrorCode.CORRUPT_MESSAGE
