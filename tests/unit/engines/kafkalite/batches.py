"""Batches as a producer makes them; what is in them is nobody's business here."""

from engines.kafkalite.log import BATCH_HEAD, BEFORE_LENGTH_COUNTS, MAGIC, Batch
from engines.kafkalite.wire import LONG


def packed(
    count: int = 1, *, producer: int = -1, epoch: int = 0, sequence: int = 0, size: int = 20, at: int = 1000
) -> bytes:
    length = BATCH_HEAD.size - BEFORE_LENGTH_COUNTS + size
    head = BATCH_HEAD.pack(0, length, 0, MAGIC, 0, 0, count - 1, at, at, producer, epoch, sequence, count)
    return head + bytes(size)


def batch(count: int = 1, **fields: int) -> Batch:
    return Batch.read(packed(count, **fields))


def offsets(data: bytes) -> list[int]:
    """The first offset of each batch in a partition's answer."""
    found = []
    while data:
        found.append(LONG.unpack_from(data)[0])
        data = data[BATCH_HEAD.unpack_from(data)[1] + BEFORE_LENGTH_COUNTS :]
    return found
