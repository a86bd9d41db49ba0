"""What goes to which gateway: pure arithmetic on sets, no I/O."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import orjson

from delivery.stores.connections import gateway_of


@dataclass(frozen=True, slots=True)
class Parcel:
    """Frames for some users. A frame's origin is the connection that caused it and needs no copy."""

    user_ids: frozenset[str]
    frames: Sequence[tuple[Mapping[str, Any], str | None]]


def payloads(addressed: Iterable[tuple[Parcel, Sequence[str]]]) -> dict[str, bytes]:
    """One payload per gateway, carrying every parcel's deliveries to the connections beside it."""
    by_gateway: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for parcel, recipients in addressed:
        for gateway_id, delivery in _deliveries(parcel, recipients):
            by_gateway[gateway_id].append(delivery)
    return {
        gateway_id: orjson.dumps({"type": "deliver", "deliveries": deliveries})
        for gateway_id, deliveries in by_gateway.items()
    }


def _deliveries(parcel: Parcel, recipients: Iterable[str]) -> Iterable[tuple[str, dict[str, Any]]]:
    """Everything to who sent nothing of it; to the senders, frame by frame, what others sent.

    A delivery of its own for each sender would repeat every frame for every one of them.
    """
    origins = {origin for _, origin in parcel.frames if origin is not None}
    ordinary, senders = _by_gateway(recipients, origins)
    everything = [frame for frame, _ in parcel.frames]
    for gateway_id, connection_ids in ordinary.items():
        yield gateway_id, {"connection_ids": connection_ids, "messages": everything}
    for gateway_id, connection_ids in senders.items():
        for origin, run in groupby(parcel.frames, key=lambda pair: pair[1]):
            others = [connection for connection in connection_ids if connection != origin]
            if others:
                yield gateway_id, {"connection_ids": others, "messages": [frame for frame, _ in run]}


def _by_gateway(
    recipients: Iterable[str], origins: Collection[str]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    ordinary: dict[str, list[str]] = defaultdict(list)
    senders: dict[str, list[str]] = defaultdict(list)
    for connection in recipients:
        (senders if connection in origins else ordinary)[gateway_of(connection)].append(connection)
    return ordinary, senders
