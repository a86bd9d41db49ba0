"""What goes to which gateway: pure arithmetic on sets, no I/O."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    origins = {origin for _, origin in parcel.frames if origin is not None}
    ordinary: dict[str, list[str]] = defaultdict(list)
    for connection in recipients:
        if connection not in origins:
            ordinary[gateway_of(connection)].append(connection)
            continue
        others = [frame for frame, origin in parcel.frames if origin != connection]
        if others:
            yield gateway_of(connection), {"connection_ids": [connection], "messages": others}
    everything = [frame for frame, _ in parcel.frames]
    for gateway_id, connection_ids in ordinary.items():
        yield gateway_id, {"connection_ids": connection_ids, "messages": everything}
