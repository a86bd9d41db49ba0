"""Record batches with a valid header and arbitrary records."""

from engines.kafkalite.log import BATCH_HEADER, LENGTH_OFFSET, MAGIC, Batch
from engines.kafkalite.wire import INT64


def packed(
    count: int = 1, *, producer: int = -1, epoch: int = 0, sequence: int = 0, size: int = 20, at: int = 1000
) -> bytes:
    length = BATCH_HEADER.size - LENGTH_OFFSET + size
    head = BATCH_HEADER.pack(0, length, 0, MAGIC, 0, 0, count - 1, at, at, producer, epoch, sequence, count)
    return head + bytes(size)


def batch(count: int = 1, **fields: int) -> Batch:
    return Batch.read(packed(count, **fields))


def offsets(data: bytes) -> list[int]:
    """The first offset of each batch in a partition's part of a response."""
    found = []
    while data:
        found.append(INT64.unpack_from(data)[0])
        data = data[BATCH_HEADER.unpack_from(data)[1] + LENGTH_OFFSET :]
    return found
