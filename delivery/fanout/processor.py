"""A batch of the event log, turned into deliveries: one membership look-up, one routing look-up, one publish.

Everything it does may be done again: a batch that failed half-way is processed anew, and clients show each sequence
once.
"""

import logging
import time
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from prometheus_client import Counter, Histogram

from delivery.fanout.gaps import Gaps
from delivery.fanout.members import MemberCache
from delivery.fanout.routing import Parcel, payloads
from delivery.stores.connections import Routes
from foundation.kernel.events import ORIGIN_HEADER, Event, MalformedEvent
from foundation.stores.kafka import Record

log = logging.getLogger(__name__)

EVENTS = Counter("parley_fanout_events_total", "Events consumed, by type.", ["event_type"])
MALFORMED = Counter("parley_fanout_malformed_total", "Events that could not be read and were skipped.")
DELIVERIES = Counter("parley_fanout_deliveries_total", "Payloads handed to gateways.")
LATENCY = Histogram(
    "parley_fanout_seconds",
    "Time from an event's birth to its being handed to the gateways.",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60),
)


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
        """Deliver a batch. Raises `StoreUnavailable` when an engine is away; nothing is remembered then."""
        events = [(record, event) for record in records if (event := _decoded(record)) is not None]
        parcels = [parcel for parcel in (*self._notices(events), *self._messages(events)) if parcel.user_ids]
        if parcels:
            self._deliver(parcels)
        self._remember(events)

    def _deliver(self, parcels: Sequence[Parcel]) -> None:
        recipients = self._routes.connections_of([parcel.user_ids for parcel in parcels])
        outgoing = payloads(zip(parcels, recipients, strict=True))
        if not outgoing:
            return
        for gateway_id in self._routes.publish(outgoing):
            self._routes.forget(gateway_id, {user for parcel in parcels for user in parcel.user_ids})
        DELIVERIES.inc(len(outgoing))

    def _notices(self, events: Sequence[tuple[Record, Event]]) -> list[Parcel]:
        """Births and changes of membership. A change first makes the cache forget."""
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

    def _remember(self, events: Sequence[tuple[Record, Event]]) -> None:
        now = self._wall_clock()
        for event_type, count in Counts(event.event_type for _, event in events).items():
            EVENTS.labels(event_type).inc(count)
        for _, event in events:
            LATENCY.observe(max(0.0, now - event.event_time.timestamp()))
            if event.event_type == "MessagePersisted":
                self._gaps.fanned_out(str(event.payload["chat_id"]), int(event.payload["sequence"]))


def _frame(message: Any) -> dict[str, Any]:
    return {**message, "type": "message"}


def _decoded(record: Record) -> Event | None:
    """The event, or None for one that cannot be read: it is logged by its place, counted, and stops nothing."""
    try:
        event = Event.decode(record.value)
        _require_payload(event)
    except MalformedEvent as error:
        MALFORMED.inc()
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
