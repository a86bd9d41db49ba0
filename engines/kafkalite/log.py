"""A partition's log: batches as producers made them, given their offsets, the newest megabytes of them."""

from bisect import bisect_right
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from struct import Struct

from engines.kafkalite.errors import Code, Refusal
from engines.kafkalite.wire import LONG, NOTHING

# Base offset, length, leader's epoch, magic, checksum, attributes, last offset delta, first and last timestamp,
# producer's id and epoch, base sequence, count. The checksum covers what comes after it: not the base offset.
BATCH_HEAD = Struct(">qiibIhiqqqhii")
BEFORE_LENGTH_COUNTS = 12
MAGIC = 2
MAX_BYTES = 5 * 1024 * 1024
KEPT = 7 / 8
"""The part of it that stays when it is exceeded, so that cutting is seldom."""
MAX_PRODUCERS = 1_000
REMEMBERED_BATCHES = 5
"""As many as a producer may have under way, and repeat."""
SEQUENCES = 1 << 31


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages that a producer put together; what they are is between it and the consumers."""

    data: bytes
    count: int
    latest_timestamp: int
    producer_id: int
    producer_epoch: int
    first_sequence: int

    @classmethod
    def read(cls, data: bytes) -> "Batch":
        """Raises `Refusal` for anything but one whole batch of the current form."""
        if len(data) < BATCH_HEAD.size:
            raise Refusal(Code.CORRUPT_MESSAGE)
        _, length, _, magic, _, _, delta, _, latest, producer, epoch, sequence, count = BATCH_HEAD.unpack_from(data)
        if magic != MAGIC or length + BEFORE_LENGTH_COUNTS != len(data) or not 0 < count == delta + 1:
            raise Refusal(Code.CORRUPT_MESSAGE)
        return cls(data, count, latest, producer, epoch, sequence)

    @property
    def last_sequence(self) -> int:
        return (self.first_sequence + self.count - 1) % SEQUENCES


@dataclass(slots=True)
class _Producer:
    """What one idempotent producer wrote last: first and last sequence, and offset."""

    epoch: int
    written: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))


class Partition:
    """Offsets are dense. `start` is the oldest that is still kept, `end` the next to be given."""

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
        """The first message's offset; for a batch that is repeated, the one it has. Raises `Refusal`."""
        producer = None if batch.producer_id == NOTHING else self._producer(batch)
        if producer is not None and (offset := _repeated(producer, batch)) is not None:
            return offset
        offset = self.end
        self._offsets.append(offset)
        self._batches.append(LONG.pack(offset) + batch.data[LONG.size :])
        self._timestamps.append(batch.latest_timestamp)
        self.end += batch.count
        self._bytes += len(batch.data)
        if producer is not None:
            producer.written.append((batch.first_sequence, batch.last_sequence, offset))
        if self._bytes > self._max_bytes:
            self._cut()
        return offset

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes:
        """Whole batches, from the one that holds `offset` on. Raises `Refusal`."""
        if not self.start <= offset <= self.end:
            raise Refusal(Code.OFFSET_OUT_OF_RANGE)
        if offset == self.end:
            return b""
        first = last = bisect_right(self._offsets, offset) - 1
        size = len(self._batches[first]) if at_least_one else 0
        last += at_least_one
        while last < len(self._batches) and size + len(self._batches[last]) <= max_bytes:
            size += len(self._batches[last])
            last += 1
        return b"".join(self._batches[first:last])

    def offset_at(self, timestamp: int) -> int | None:
        """Where the first batch begins that holds a message of this time or later."""
        places = zip(self._offsets, self._timestamps, strict=True)
        return next((offset for offset, latest in places if latest >= timestamp), None)

    def _producer(self, batch: Batch) -> _Producer:
        """The batch's own. One that is not known here may begin anywhere: this broker may have lost its log."""
        known = self._producers.get(batch.producer_id)
        if known is None or known.epoch < batch.producer_epoch:
            known = self._producers[batch.producer_id] = _Producer(batch.producer_epoch)
        if known.epoch > batch.producer_epoch:
            raise Refusal(Code.INVALID_PRODUCER_EPOCH)
        self._producers.move_to_end(batch.producer_id)
        if len(self._producers) > MAX_PRODUCERS:
            self._producers.popitem(last=False)
        return known

    def _cut(self) -> None:
        gone = 0
        while self._bytes > self._max_bytes * KEPT and gone < len(self._batches) - 1:
            self._bytes -= len(self._batches[gone])
            gone += 1
        del self._offsets[:gone], self._batches[:gone], self._timestamps[:gone]


def _repeated(producer: _Producer, batch: Batch) -> int | None:
    """The offset that a repeated batch has; None for the next one. Raises `Refusal` for any other."""
    if not producer.written:
        return None
    span = (batch.first_sequence, batch.last_sequence)
    for first, last, offset in producer.written:
        if (first, last) == span:
            return offset
    latest = producer.written[-1][1]
    if batch.first_sequence == (latest + 1) % SEQUENCES:
        return None
    is_old = (latest - batch.first_sequence) % SEQUENCES < SEQUENCES // 2
    raise Refusal(Code.DUPLICATE_SEQUENCE_NUMBER if is_old else Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
