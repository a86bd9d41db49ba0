"""The log of a partition: the latest batches, as the producers encoded them, with their offsets."""

from bisect import bisect_right
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from struct import Struct

from engines.kafkalite.errors import ErrorCode, KafkaError
from engines.kafkalite.wire import INT64

# Base offset, length, leader epoch, magic, checksum, attributes, last offset delta, first and last timestamp,
# producer id and epoch, base sequence, count. The checksum does not cover what precedes it, such as the base offset.
BATCH_HEADER = Struct(">qiibIhiqqqhii")
LENGTH_OFFSET = 12
"""The bytes that a batch's length field does not count."""
MAGIC = 2
NO_PRODUCER_ID = -1
MAX_BYTES = 5 * 1024 * 1024
TRIM_RATIO = 7 / 8
"""A log that exceeds its size is trimmed to this part of it, so that trimming is rare."""
MAX_PRODUCERS = 1_000
BATCHES_PER_PRODUCER = 5
"""The number of in-flight batches that an idempotent producer may retry."""
SEQUENCES = 1 << 31
"""Sequence numbers wrap around here."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A record batch. The broker does not look into its records."""

    data: bytes
    count: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    first_sequence: int

    @classmethod
    def read(cls, data: bytes) -> "Batch":
        """Raises `KafkaError` unless the data is exactly one batch of the current format."""
        if len(data) < BATCH_HEADER.size:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE)
        _, length, _, magic, _, _, delta, _, latest, producer, epoch, sequence, count = BATCH_HEADER.unpack_from(data)
        if magic != MAGIC or length + LENGTH_OFFSET != len(data) or not 0 < count == delta + 1:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE)
        return cls(data, count, latest, producer, epoch, sequence)

    @property
    def last_sequence(self) -> int:
        return (self.first_sequence + self.count - 1) % SEQUENCES


@dataclass(slots=True)
class _Producer:
    """The last batches of an idempotent producer: first and last sequence, offset."""

    epoch: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=BATCHES_PER_PRODUCER))


class Partition:
    """Offsets are dense. `start` is the first offset in the log, `end` the next one to assign."""

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self.end = 0
        self._max_bytes = max_bytes
        self._offsets: list[int] = []
        self._batches: list[bytes] = []
        self._timestamps: list[int] = []
        self._bytes = 0
        self._producers: OrderedDict[int, _Producer] = OrderedDict()

    @property
    def start(self) -> int:
        return self._offsets[0] if self._offsets else self.end

    def append(self, batch: Batch) -> int:
        """Return the offset of the first record; a retried batch keeps its offset. Raises `KafkaError`."""
        producer = None if batch.producer_id == NO_PRODUCER_ID else self._producer(batch)
        if producer is not None and (offset := _find_duplicate(producer, batch)) is not None:
            return offset
        offset = self.end
        self._offsets.append(offset)
        self._batches.append(INT64.pack(offset) + batch.data[INT64.size :])
        self._timestamps.append(batch.max_timestamp)
        self.end += batch.count
        self._bytes += len(batch.data)
        if producer is not None:
            producer.batches.append((batch.first_sequence, batch.last_sequence, offset))
        if self._bytes > self._max_bytes:
            self._trim()
        return offset

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes:
        """Return whole batches, from the one that contains `offset`. Raises `KafkaError`."""
        if not self.start <= offset <= self.end:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset == self.end:
            return b""
        first = last = bisect_right(self._offsets, offset) - 1
        size = len(self._batches[first]) if at_least_one else 0
        last += at_least_one
        while last < len(self._batches) and size + len(self._batches[last]) <= max_bytes:
            size += len(self._batches[last])
            last += 1
        return b"".join(self._batches[first:last])

    def offset_for_timestamp(self, timestamp: int) -> int | None:
        """Return the offset of the first batch with a record of this time or later."""
        batches = zip(self._offsets, self._timestamps, strict=True)
        return next((offset for offset, latest in batches if latest >= timestamp), None)

    def _producer(self, batch: Batch) -> _Producer:
        """Return the producer of a batch. A new one may start with any sequence: the broker may have lost its log."""
        known = self._producers.get(batch.producer_id)
        if known is None or known.epoch < batch.producer_epoch:
            known = self._producers[batch.producer_id] = _Producer(batch.producer_epoch)
        if known.epoch > batch.producer_epoch:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        self._producers.move_to_end(batch.producer_id)
        if len(self._producers) > MAX_PRODUCERS:
            self._producers.popitem(last=False)
        return known

    def _trim(self) -> None:
        count = 0
        while self._bytes > self._max_bytes * TRIM_RATIO and count < len(self._batches) - 1:
            self._bytes -= len(self._batches[count])
            count += 1
        del self._offsets[:count], self._batches[:count], self._timestamps[:count]


def _find_duplicate(producer: _Producer, batch: Batch) -> int | None:
    """Return the offset of a batch that was appended before; None for the next one. Raises `KafkaError` otherwise."""
    if not producer.batches:
        return None
    sequences = (batch.first_sequence, batch.last_sequence)
    for first, last, offset in producer.batches:
        if (first, last) == sequences:
            return offset
    latest = producer.batches[-1][1]
    if batch.first_sequence == (latest + 1) % SEQUENCES:
        return None
    is_old = (latest - batch.first_sequence) % SEQUENCES < SEQUENCES // 2
    raise KafkaError(ErrorCode.DUPLICATE_SEQUENCE_NUMBER if is_old else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
