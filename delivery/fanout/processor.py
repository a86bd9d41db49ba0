"""Turns a batch of events into deliveries: one membership look-up, one routing look-up, one publish.

Everything may be repeated: a batch that failed half-way is processed again, and clients show each sequence once.
"""

import logging
import time
from collections import Counter as Counts
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson
from prometheus_client import Counter, Histogram

from delivery.stores.connections import MemberCache, Routes, gateway_of
from foundation.kernel.events import ORIGIN_HEADER, REPUBLISHED_HEADER, Event, MalformedEvent
from foundation.kernel.tracing import TRACEPARENT_HEADER, parse_traceparent, trace_id_of
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
MAX_SEQUENCE = 2**53 - 1
MAX_ID_LENGTH = 128

Payload = Mapping[str, Any]
ReadBetween = Callable[[str, int, int], Sequence[Payload]]
Run = tuple[int, int]
"""The first and the last of sequences without a gap."""

_sequence = itemgetter("sequence")


class Gaps:
    """Finds lost events: chats are dense, so a jump in the sequence is a gap, which is read from DynamoDB.

    Remembers, per chat, one run of sequences without gaps that this worker has delivered, and nothing that it has not:
    an event out of order, or with a wrong sequence, never hides another. Not thread-safe.
    """

    def __init__(self, read_between: ReadBetween, *, capacity: int = MAX_CHATS) -> None:
        self._read_between = read_between
        self._capacity = capacity
        self._delivered: OrderedDict[str, Run] = OrderedDict()

    def complete(self, chat_id: str, payloads: Sequence[Payload]) -> list[Payload]:
        """The messages to deliver, ascending: those that arrived, without repeats, and those missing in between.

        A gap of more than `MAX_GAP` is left to the clients' syncs.
        """
        fresh: dict[int, Payload] = {}
        run = self._delivered.get(chat_id)
        for payload in sorted(payloads, key=_sequence):
            sequence = payload["sequence"]
            if run is not None:
                first, last = run
                if first <= sequence <= last:
                    REPEATED.inc()
                    continue
                if last + 1 < sequence <= last + 1 + MAX_GAP:
                    missing = sorted(self._read_between(chat_id, last + 1, sequence - 1), key=_sequence)
                    for found in missing:
                        fresh[found["sequence"]] = found
                        run = _extended(run, found["sequence"])
                    GAP_MESSAGES.inc(len(missing))
            fresh[sequence] = payload
            run = _extended(run, sequence)
        return [fresh[sequence] for sequence in sorted(fresh)]

    def advance(self, chat_id: str, messages: Iterable[Payload]) -> None:
        """These messages, ascending, have been published to the gateways."""
        run = self._delivered.pop(chat_id, None)
        for message in messages:
            run = _extended(run, message["sequence"])
        if run is not None:
            self._delivered[chat_id] = run
        if len(self._delivered) > self._capacity:
            self._delivered.popitem(last=False)

    def forget(self) -> None:
        """Partitions have moved: other workers may have delivered more meanwhile."""
        self._delivered.clear()


def _extended(run: Run | None, sequence: int) -> Run:
    """The run with a sequence that joins it. One that is far away begins a run of its own."""
    if run is None:
        return sequence, sequence
    first, last = run
    if sequence == last + 1:
        return first, sequence
    if sequence == first - 1:
        return sequence, last
    return run if first - MAX_GAP <= sequence <= last + 1 + MAX_GAP else (sequence, sequence)


@dataclass(frozen=True, slots=True)
class FrameBatch:
    """Frames for some users. A frame's origin is the connection that sent it and needs no copy.

    `traceparents` are those of their senders, by message id, for the logs.
    """

    user_ids: frozenset[str]
    frames: Sequence[tuple[Mapping[str, Any], str | None]]
    traceparents: Mapping[str, str] = field(default_factory=dict)


def payloads(addressed: Iterable[tuple[FrameBatch, Sequence[str]]]) -> dict[str, bytes]:
    """One payload per gateway, with the deliveries of every batch of frames to that gateway's connections."""
    by_gateway: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for frame_batch, recipients in addressed:
        for gateway_id, delivery in _deliveries(frame_batch, recipients):
            by_gateway[gateway_id].append(delivery)
    return {
        gateway_id: orjson.dumps({"type": "deliver", "deliveries": deliveries})
        for gateway_id, deliveries in by_gateway.items()
    }


def _deliveries(frame_batch: FrameBatch, recipients: Iterable[str]) -> Iterable[tuple[str, dict[str, Any]]]:
    """All frames in one delivery to the connections that sent none; frame by frame to those that did.

    A delivery for each sender would repeat every frame for each of them.
    """
    origins = {origin for _, origin in frame_batch.frames if origin is not None}
    ordinary, senders = _by_gateway(recipients, origins)
    everything = [frame for frame, _ in frame_batch.frames]
    traced = {"traceparents": frame_batch.traceparents} if frame_batch.traceparents else {}
    for gateway_id, connection_ids in ordinary.items():
        yield gateway_id, {"connection_ids": connection_ids, "messages": everything, **traced}
    for gateway_id, connection_ids in senders.items():
        for origin, run in groupby(frame_batch.frames, key=lambda pair: pair[1]):
            others = [connection for connection in connection_ids if connection != origin]
            if others:
                yield gateway_id, {"connection_ids": others, "messages": [frame for frame, _ in run], **traced}


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
        """Deliver a batch. Raises `StoreUnavailable`, and remembers nothing, when an engine is away."""
        events = [(record, event) for record in records if (event := _decoded(record)) is not None]
        notices, (fresh, messages) = self._notices(events), self._messages(events)
        frame_batches = [frame_batch for frame_batch in (*notices, *messages) if frame_batch.user_ids]
        if frame_batches:
            self._deliver(frame_batches)
        for chat_id, delivered in fresh.items():
            self._gaps.advance(chat_id, delivered)
        self._record_progress(events)

    def forget(self) -> None:
        """Partitions have moved to other workers, or come from them."""
        self._gaps.forget()
        self._members.forget_reads()

    def _deliver(self, frame_batches: Sequence[FrameBatch]) -> None:
        recipients = self._routes.connections_of([frame_batch.user_ids for frame_batch in frame_batches])
        outgoing = payloads(zip(frame_batches, recipients, strict=True))
        if not outgoing:
            return
        for gateway_id in self._routes.publish(outgoing):
            self._routes.forget(gateway_id, {user for frame_batch in frame_batches for user in frame_batch.user_ids})
        DELIVERIES.inc(len(outgoing))
        if log.isEnabledFor(logging.DEBUG):
            _log_published(frame_batches)

    def _notices(self, events: Sequence[tuple[Record, Event]]) -> list[FrameBatch]:
        """New chats and membership changes. A change invalidates the cache first.

        One that was published again may be older than what its receivers know: it is sent as far as it is still true.
        """
        changed = [each for each in events if each[1].event_type == "MembershipChanged"]
        created = [each for each in events if each[1].event_type == "ChatCreated"]
        read = {event.payload["chat_id"] for _, event in changed}
        read |= {event.payload["chat_id"] for record, event in created if REPUBLISHED_HEADER in record.headers}
        self._members.invalidate(read)
        members = self._members.members_of(read) if read else {}
        frame_batches: list[FrameBatch] = []
        for record, event in changed:
            known, user_id = members[event.payload["chat_id"]], event.payload["user_id"]
            was_removed = event.payload.get("change_type") == "removed"
            if REPUBLISHED_HEADER not in record.headers or was_removed != (user_id in known):
                frame = {**event.payload, "type": "membership_changed"}
                frame_batches.append(FrameBatch(frozenset(known | {user_id}), [(frame, None)]))
        for record, event in created:
            receivers = frozenset(event.payload["initial_members"])
            if REPUBLISHED_HEADER in record.headers:
                receivers &= members[event.payload["chat_id"]]
            frame_batches.append(FrameBatch(receivers, [({**event.payload, "type": "chat_created"}, None)]))
        return frame_batches

    def _messages(self, events: Sequence[tuple[Record, Event]]) -> tuple[dict[str, list[Payload]], list[FrameBatch]]:
        """The messages to deliver, by chat, and their batches of frames."""
        by_chat: dict[str, list[Any]] = defaultdict(list)
        origins: dict[tuple[str, int], str] = {}
        traceparents: dict[str, dict[str, str]] = {}
        for record, event in events:
            if event.event_type in _ENTRIES:
                chat_id = event.payload["chat_id"]
                by_chat[chat_id].append(event.payload)
                if origin := record.headers.get(ORIGIN_HEADER):
                    origins[chat_id, event.payload["sequence"]] = origin.decode("utf-8", "replace")
                if (header := record.headers.get(TRACEPARENT_HEADER)) and (trace := _traceparent(header)):
                    traceparents.setdefault(chat_id, {})[event.payload["message_id"]] = trace
        complete = {chat_id: self._gaps.complete(chat_id, payloads) for chat_id, payloads in by_chat.items()}
        fresh = {chat_id: messages for chat_id, messages in complete.items() if messages}
        members = self._members.members_of(fresh) if fresh else {}
        frame_batches: list[FrameBatch] = []
        for chat_id, messages in fresh.items():
            for known, named, part in self._by_members(chat_id, members[chat_id], messages):
                framed = [(_frame(message), origins.get((chat_id, message["sequence"]))) for message in part]
                frame_batches.append(FrameBatch(frozenset(known | named), framed, traceparents.get(chat_id, {})))
        return fresh, frame_batches

    def _by_members(
        self, chat_id: str, members: set[str], messages: Sequence[Payload]
    ) -> Iterable[tuple[set[str], set[str], Sequence[Payload]]]:
        """The messages with their receivers: members, and who is named by the notice at the end of a part.

        A notice of a membership change is the invalidation, in its place: entries up to it go to the members known
        before and those it names, later ones to the members that DynamoDB has by then.
        """
        part: list[Payload] = []
        for message in messages:
            part.append(message)
            if named := _named_by(message):
                yield members, named, part
                self._members.invalidate([chat_id])
                members, part = self._members.members_of([chat_id])[chat_id], []
        if part:
            yield members, set(), part

    def _record_progress(self, events: Sequence[tuple[Record, Event]]) -> None:
        now = self._wall_clock()
        for event_type, count in Counts(event.event_type for _, event in events).items():
            EVENTS.labels(event_type).inc(count)
        for _, event in events:
            LATENCY.observe(max(0.0, now - event.event_time.timestamp()))


def _named_by(message: Payload) -> set[str]:
    """Who joined or left by this entry."""
    notice = message.get("notice")
    if not isinstance(notice, dict) or str(notice.get("type")) not in _MEMBERSHIP_NOTICES:
        return set()
    user_ids = notice.get("user_ids")
    return {each for each in user_ids if isinstance(each, str)} if isinstance(user_ids, list) else set()


def _log_published(frame_batches: Iterable[FrameBatch]) -> None:
    for frame_batch in frame_batches:
        for frame, _ in frame_batch.frames:
            ids = {name: frame[name] for name in ("message_id", "chat_id", "sequence") if name in frame}
            if (traceparent := frame_batch.traceparents.get(frame.get("message_id", ""))) is not None:
                ids["trace_id"] = trace_id_of(traceparent)
            log.debug("published %s to the gateways", ids.get("message_id", frame.get("type")), extra=ids)


def _traceparent(header: bytes) -> str | None:
    return parse_traceparent(header.decode("latin1"))


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


_TEXTS = {
    "MessagePersisted": ("chat_id", "message_id"),
    "EntryPersisted": ("chat_id", "message_id"),
    "MembershipChanged": ("chat_id", "user_id"),
    "ChatCreated": ("chat_id",),
}
_ENTRIES = frozenset(("MessagePersisted", "EntryPersisted"))
_MEMBERSHIP_NOTICES = frozenset(("member_added", "member_removed", "member_left"))
_OPTIONAL_TEXTS = ("kind", "sender_id", "client_message_id", "content", "content_type", "created_at")
_CONTAINERS = (dict, list)


def _require_payload(event: Event) -> None:
    """Raises `MalformedEvent` for a payload that an engine or a client would refuse: retries would not help."""
    payload = event.payload
    for name in _TEXTS[event.event_type]:
        value = payload.get(name)
        if type(value) is not str or not 0 < len(value) <= MAX_ID_LENGTH:
            raise MalformedEvent(f"the payload's {name} is missing or no id")
    if "type" in payload:
        raise MalformedEvent("the payload has a type, which is the frame's")
    if event.event_type in _ENTRIES:
        _require_sequence(payload.get("sequence"))
        for name in _OPTIONAL_TEXTS:
            if type(payload.get(name, "")) is not str:
                raise MalformedEvent(f"the payload's {name} is not a text")
        _require_notice(payload.get("notice"))
    elif event.event_type == "MembershipChanged":
        _require_sequence(payload.get("sequence", 1))  # absent in events of earlier releases
    elif event.event_type == "ChatCreated":
        _require_texts(payload.get("initial_members"), "initial_members")
    for value in payload.values():
        if type(value) in _CONTAINERS:
            _require_shallow(value)


def _require_sequence(sequence: object) -> None:
    if type(sequence) is not int or not 1 <= sequence <= MAX_SEQUENCE:
        raise MalformedEvent("the payload's sequence is missing or out of range")


def _require_notice(notice: object) -> None:
    if type(notice) is not dict:
        return  # names nobody
    if type(notice.get("type")) is not str:
        raise MalformedEvent("the payload's notice has no type")
    _require_texts(notice.get("user_ids", []), "notice.user_ids")


def _require_texts(value: object, name: str) -> None:
    if type(value) is not list or not all(type(each) is str for each in value):
        raise MalformedEvent(f"the payload's {name} is not a list of texts")


def _require_shallow(value: Any) -> None:
    """orjson decodes deeper values than it encodes. A delivery encloses a payload in five levels."""
    try:
        orjson.dumps([[[[[value]]]]])
    except TypeError as error:
        raise MalformedEvent("the payload is nested too deeply") from error
