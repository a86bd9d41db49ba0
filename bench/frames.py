"""Parley's frames at minimal CPU cost: written from templates, read by byte search.

The client message id carries the time the message was due, so that any receiver, in any process, can compute its
latency. The clock is the system's, the same for all processes.
"""

import re
from collections.abc import Iterator

ACK = b'{"type":"ack"'
MESSAGE = b'{"type":"message'
"""Prefix of `message` and `message_batch`."""
SYNC_BATCH = b'{"type":"sync_batch"'
ERROR = b'{"type":"error"'
HEARTBEAT = b'{"type":"heartbeat"}'

BODY = b"x" * 120
SEQUENCE = b'"sequence":'
_SEQUENCES = re.compile(rb'"sequence":(\d+)')
_DUE = re.compile(rb'"client_message_id":"\d+\.(\d+)"')
_MICRO = 1_000_000


def to_micros(due: float) -> int:
    """A due time as the client message id carries it; the same before sending and after parsing."""
    return round(due * _MICRO)


class Drafts:
    """`send_message` frames for one chat, each with a unique id."""

    __slots__ = ("_number", "_template")

    def __init__(self, chat_id: str, *, first: int = 0) -> None:
        head = b'{"type":"send_message","client_message_id":"%d.%d","chat_id":"'
        self._template = head + chat_id.encode() + b'","content":"' + BODY + b'"}'
        self._number = first

    def next(self, due: float) -> bytes:
        self._number += 1
        return self._template % (self._number, to_micros(due))


def sequences(frame: bytes) -> list[int]:
    """The sequences of all messages in the frame, in its order."""
    return [int(found) for found in _SEQUENCES.findall(frame)]


def parse_messages(frame: bytes) -> Iterator[tuple[int, float]]:
    """Yield sequence and due time of every message in the frame, or of the message it acknowledges."""
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
