"""What the fanout published, sorted by connection, each frame encoded once for all who get the same.

A connection is written to once, however many of a payload's deliveries concern it.
"""

import logging
from collections.abc import Iterable, Iterator
from itertools import chain

import orjson

from delivery.gateway import frames
from delivery.gateway.frames import Frame

log = logging.getLogger(__name__)


def sorted_out(payloads: Iterable[bytes]) -> Iterator[tuple[str, list[Frame]]]:
    """Each connection with its frames, in the order of their coming. A payload that cannot be read is logged."""
    waiting: dict[str, list[Frame]] = {}
    for connection_ids, ready in chain.from_iterable(map(_read, payloads)):
        for connection_id in connection_ids:
            waiting.setdefault(connection_id, []).extend(ready)
    joined: dict[tuple[int, ...], list[Frame]] = {}
    for connection_id, mine in waiting.items():
        same = tuple(map(id, mine))
        if same not in joined:
            joined[same] = frames.joined(mine)
        yield connection_id, joined[same]


def _read(payload: bytes) -> list[tuple[list[str], list[Frame]]]:
    try:
        return [
            (delivery["connection_ids"], frames.delivered(delivery["messages"]))
            for delivery in orjson.loads(payload)["deliveries"]
        ]
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        log.exception("a delivery cannot be read")
        return []
