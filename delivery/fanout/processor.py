"""Turns a batch of events into deliveries: one membership look-up, one routing look-up, one publish.

Everything may be repeated: a batch that failed half-way is processed again, and clients show each sequence once.
"""

import logging
import time
from collections import Counter as Counts
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import orjson
from prometheus_client import Counter, Histogram

from delivery.stores.connections import MemberCache, Routes, gateway_of
from foundation.kernel.events import ORIGIN_HEADER, Event, MalformedEvent
from foundation.stores.kafka.consumer import Record
from foundation.stores.metrics import EVENTS_SKIPPED

log = logging.getLogger(__name__)

EVENTS = Counter("parley_fanout_events_total", "Events consumed, by type.", ["event_type"])
DELIVERIES = Counter("parley_fanout_deliveries_total", "Payloads published to gateways.")
LATENCY = Histogram(
    "parley_fanout_seconds",
    "Time from an event's creation to its publication to the gateways.",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60),
)
GAP_MESSAGES = Counter(
    "parley_fanout_gap_messages_total", "Messages that were delivered without an event of their own."
)
REPEATED = Counter("parley_fanout_repeated_events_total", "Events of messages that had been delivered already.")

MAX_CHATS = 50_000
MAX_GAP = 200

Payload = Mapping[str, Any]
ReadBetween = Callable[[str, int, int], Sequence[Payload]]


class Gaps:
    """Finds lost events: chats are dense, so a jump in the sequence is a gap, which is read from DynamoDB.

    Remembers, per chat, the last sequence that this worker delivered. Not thread-safe.
    """

    def __init__(self, read_between: ReadBetween, *, capacity: int = MAX_CHATS) -> None:
        self._read_between = read_between
        self._capacity = capacity
        self._last: OrderedDict[str, int] = OrderedDict()

    def complete(self, chat_id: str, payloads: Sequence[Payload]) -> list[Payload]:
        """The messages to deliver, ascending: those that arrived, without repeats, and those missing in between.

        A gap of more than `MAX_GAP` is left to the clients' syncs.
        """
        fresh: dict[int, Payload] = {}
        last = self._last.get(chat_id)
        for payload in sorted(payloads, key=lambda payload: int(payload["sequence"])):
            sequence = int(payload["sequence"])
            if last is not None and sequence <= last:
                REPEATED.inc()
                continue
            if last is not None and 0 < sequence - last - 1 <= MAX_GAP:
                missing = self._read_between(chat_id, last + 1, sequence - 1)
                fresh.update({int(found["sequence"]): found for found in missing})
                GAP_MESSAGES.inc(len(missing))
            fresh[sequence] = payload
            last = sequence
        return [fresh[sequence] for sequence in sorted(fresh)]

    def advance(self, chat_id: str, sequence: int) -> None:
        """Everything up to here has been published to the gateways."""
        self._last[chat_id] = max(sequence, self._last.pop(chat_id, 0))
        if len(self._last) > self._capacity:
            self._last.popitem(last=False)

    def forget(self) -> None:
        """Partitions have moved: other workers may have delivered more meanwhile."""
        self._last.clear()


@dataclass(frozen=True, slots=True)
class Parcel:
    """Frames for some users. A frame's origin is the connection that sent it and needs no copy."""

    user_ids: frozenset[str]
    frames: Sequence[tuple[Mapping[str, Any], str | None]]


def payloads(addressed: Iterable[tuple[Parcel, Sequence[str]]]) -> dict[str, bytes]:
    """One payload per gateway, with every parcel's deliveries to that gateway's connections."""
    by_gateway: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for parcel, recipients in addressed:
        for gateway_id, delivery in _deliveries(parcel, recipients):
            by_gateway[gateway_id].append(delivery)
    return {
        gateway_id: orjson.dumps({"type": "deliver", "deliveries": deliveries})
        for gateway_id, deliveries in by_gateway.items()
    }


def _deliveries(parcel: Parcel, recipients: Iterable[str]) -> Iterable[tuple[str, dict[str, Any]]]:
    """All frames in one delivery to the connections that sent none; frame by frame to those that did.

    A delivery for each sender would repeat every frame for each of them.
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


class Processor:
    """Not thread-safe: one worker, one thread."""

    def __init__(
        self,
        *,
        members: MemberCache,
        routes: Routes,
        gaps: Gaps,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._members = members
        self._routes = routes
        self._gaps = gaps
        self._wall_clock = wall_clock

    def process(self, records: Sequence[Record]) -> None:
        """Deliver a batch. Raises `StoreUnavailable` or `RedisError`, and remembers nothing, when an engine is away."""
        events = [(record, event) for record in records if (event := _decoded(record)) is not None]
        parcels = [parcel for parcel in (*self._notices(events), *self._messages(events)) if parcel.user_ids]
        if parcels:
            self._deliver(parcels)
        self._record_progress(events)

    def _deliver(self, parcels: Sequence[Parcel]) -> None:
        recipients = self._routes.connections_of([parcel.user_ids for parcel in parcels])
        outgoing = payloads(zip(parcels, recipients, strict=True))
        if not outgoing:
            return
        for gateway_id in self._routes.publish(outgoing):
            self._routes.forget(gateway_id, {user for parcel in parcels for user in parcel.user_ids})
        DELIVERIES.inc(len(outgoing))

    def _notices(self, events: Sequence[tuple[Record, Event]]) -> list[Parcel]:
        """New chats and membership changes. A change invalidates the cache first."""
        changed = [event for _, event in events if event.event_type == "MembershipChanged"]
        self._members.invalidate(str(event.payload["chat_id"]) for event in changed)
        members = self._members.members_of(str(event.payload["chat_id"]) for event in changed) if changed else {}
        parcels = [
            Parcel(
                frozenset(members[event.payload["chat_id"]] | {event.payload["user_id"]}),
                [({"type": "membership_changed", **event.payload}, None)],
            )
            for event in changed
        ]
        parcels += [
            Parcel(frozenset(event.payload["initial_members"]), [({"type": "chat_created", **event.payload}, None)])
            for _, event in events
            if event.event_type == "ChatCreated"
        ]
        return parcels

    def _messages(self, events: Sequence[tuple[Record, Event]]) -> list[Parcel]:
        by_chat: dict[str, list[Any]] = defaultdict(list)
        origins: dict[tuple[str, int], str] = {}
        for record, event in events:
            if event.event_type == "MessagePersisted":
                chat_id = str(event.payload["chat_id"])
                by_chat[chat_id].append(event.payload)
                if origin := record.headers.get(ORIGIN_HEADER):
                    origins[chat_id, int(event.payload["sequence"])] = origin.decode("utf-8", "replace")
        complete = {chat_id: self._gaps.complete(chat_id, payloads) for chat_id, payloads in by_chat.items()}
        fresh = {chat_id: messages for chat_id, messages in complete.items() if messages}
        members = self._members.members_of(fresh) if fresh else {}
        return [
            Parcel(
                frozenset(members[chat_id]),
                [(_frame(message), origins.get((chat_id, int(message["sequence"])))) for message in messages],
            )
            for chat_id, messages in fresh.items()
        ]

    def _record_progress(self, events: Sequence[tuple[Record, Event]]) -> None:
        now = self._wall_clock()
        for event_type, count in Counts(event.event_type for _, event in events).items():
            EVENTS.labels(event_type).inc(count)
        for _, event in events:
            LATENCY.observe(max(0.0, now - event.event_time.timestamp()))
            if event.event_type == "MessagePersisted":
                self._gaps.advance(str(event.payload["chat_id"]), int(event.payload["sequence"]))


def _frame(message: Any) -> dict[str, Any]:
    return {**message, "type": "message"}


def _decoded(record: Record) -> Event | None:
    """The event; None, logged and counted, for one that cannot be read."""
    try:
        event = Event.decode(record.value)
        _require_payload(event)
    except MalformedEvent as error:
        EVENTS_SKIPPED.inc()
        log.warning("skipped %s[%d] at %d: %s", record.topic, record.partition, record.offset, error)
        return None
    return event


_REQUIRED: dict[str, tuple[tuple[str, type], ...]] = {
    "MessagePersisted": (("chat_id", str), ("sequence", int), ("message_id", str)),
    "MembershipChanged": (("chat_id", str), ("user_id", str)),
    "ChatCreated": (("chat_id", str), ("initial_members", list)),
}


def _require_payload(event: Event) -> None:
    for name, kind in _REQUIRED[event.event_type]:
        value = event.payload.get(name)
        if not isinstance(value, kind) or value == "":
            raise MalformedEvent(f"the payload's {name} is missing or of the wrong type")
    if not all(isinstance(member, str) for member in event.payload.get("initial_members", ())):
        raise MalformedEvent("a member of the payload's initial_members is not a text")
