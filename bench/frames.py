"""Parley's frames as cheaply as a client can write and read them: templates out, byte searches in.

A draft's client message id carries the moment it was due, so that whoever receives the message, in whichever process,
knows how long it took. The clock is the machine's, the same for all processes.
"""

import re
from collections.abc import Iterator

ACK = b'{"type":"ack"'
MESSAGE = b'{"type":"message'
"""Opens `message` and `message_batch`."""
SYNC_BATCH = b'{"type":"sync_batch"'
ERROR = b'{"type":"error"'
HEARTBEAT = b'{"type":"heartbeat"}'

BODY = b"x" * 120
SEQUENCE = b'"sequence":'
_SEQUENCES = re.compile(rb'"sequence":(\d+)')
_DUE = re.compile(rb'"client_message_id":"\d+\.(\d+)"')
_MICRO = 1_000_000


def moment(due: float) -> int:
    """A due time as precise as a client message id tells it, the same before the journey and after it."""
    return round(due * _MICRO)


class Drafts:
    """Frames that send the same text into one chat, each with an id of its own."""

    __slots__ = ("_number", "_template")

    def __init__(self, chat_id: str, *, first: int = 0) -> None:
        head = b'{"type":"send_message","client_message_id":"%d.%d","chat_id":"'
        self._template = head + chat_id.encode() + b'","content":"' + BODY + b'"}'
        self._number = first

    def next(self, due: float) -> bytes:
        self._number += 1
        return self._template % (self._number, moment(due))


def sequences(frame: bytes) -> list[int]:
    """Of every message in the frame, as they stand there."""
    return [int(found) for found in _SEQUENCES.findall(frame)]


def arrivals(frame: bytes) -> Iterator[tuple[int, float]]:
    """Sequence and due time of every message, or of the one an ack is about."""
    due = _DUE.findall(frame)
    found = _SEQUENCES.findall(frame)
    if len(due) != len(found):
        raise ValueError(f"not a frame of messages sent by this benchmark: {frame[:200]!r}")
    return ((int(sequence), int(at) / _MICRO) for sequence, at in zip(found, due, strict=True))


def sync_request(chat_id: str, after: int, *, limit: int = 100) -> bytes:
    return b'{"type":"sync_request","chat_id":"%b","last_acked_sequence":%d,"limit":%d}' % (
        chat_id.encode(),
        after,
        limit,
    )


def ack(chat_id: str, sequence: int) -> bytes:
    return b'{"type":"ack","chat_id":"%b","sequence":%d}' % (chat_id.encode(), sequence)
