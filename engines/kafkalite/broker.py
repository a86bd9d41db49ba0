"""Kafka's requests, each read, carried out and answered."""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from struct import Struct

from engines.kafkalite.errors import Code, Refusal
from engines.kafkalite.fetches import Fetches, Found, Wanted
from engines.kafkalite.groups import Candidate, Groups, Joined, Place, Synced
from engines.kafkalite.log import Batch, Partition
from engines.kafkalite.wire import BYTE, INT, LONG, NOTHING, SHORT, Reader, Unreadable, blob, listed, text

NODE = 0
CLUSTER = "kafkalite"
LATEST, EARLIEST = -1, -2
API_VERSIONS, NEWEST_API_VERSIONS = 18, 3
NO_THROTTLE = INT.pack(0)
NO_TAGS = b"\0"
MILLISECONDS = 1000

HEAD = Struct(">hhi")
FETCH_HEAD, FETCH_PART, FETCHED = Struct(">iiiib"), Struct(">iqi"), Struct(">ihqqi")
PRODUCED, LISTED_OFFSET, CHOICE = Struct(">ihqq"), Struct(">ihqq"), Struct(">hhh")

Reply = Callable[[bytes | None], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks, behind the head. `reply` takes the answer, now or later, or None where there is none."""

    version: int
    client_id: str
    body: Reader
    reply: Reply


@dataclass(frozen=True, slots=True)
class Api:
    """A kind of request, and the versions of it that are offered."""

    key: int
    oldest: int
    newest: int
    answer: Callable[[Request], None]


class Broker:
    """One broker with all there is. On one event loop."""

    def __init__(self, *, host: str, port: int, topics: Mapping[str, int]) -> None:
        self._host, self._port = host, port
        self._topics = {name: [Partition() for _ in range(count)] for name, count in topics.items()}
        self._fetches = Fetches()
        self.groups = Groups()
        # Not from the beginning: a producer of a broker that is gone may still use its id.
        self._next_producer = random.getrandbits(48)
        self._apis = {
            api.key: api
            for api in (
                Api(0, 3, 3, self._produce),
                Api(1, 4, 4, self._fetch),
                Api(2, 1, 1, self._list_offsets),
                Api(3, 0, 4, self._metadata),
                Api(8, 2, 2, self._commit_offsets),
                Api(9, 1, 1, self._fetch_offsets),
                Api(10, 0, 1, self._find_coordinator),
                Api(11, 0, 2, self._join_group),
                Api(12, 0, 1, self._heartbeat),
                Api(13, 0, 1, self._leave_group),
                Api(14, 0, 1, self._sync_group),
                Api(API_VERSIONS, 0, NEWEST_API_VERSIONS, self._api_versions),
                Api(22, 0, 0, self._init_producer_id),
            )
        }

    def answer(self, frame: bytes, send: Reply) -> None:
        """Carry a request out; `send` gets the whole answer. Raises `Unreadable` for what is not offered."""
        reader = Reader(frame)
        key, version, correlation = reader.values(HEAD)
        client_id = reader.text()
        api = self._apis.get(key)
        if api is None:
            raise Unreadable(f"request {key} is not offered")
        head = INT.pack(correlation)

        def reply(body: bytes | None) -> None:
            send(None if body is None else head + body)

        if key == API_VERSIONS and version > NEWEST_API_VERSIONS:
            # In the oldest form, which every client can read, so that it asks again.
            reply(SHORT.pack(Code.UNSUPPORTED_VERSION) + listed(self._offers()))
        elif not api.oldest <= version <= api.newest:
            raise Unreadable(f"version {version} of request {key} is not offered")
        else:
            api.answer(Request(version, client_id, reader, reply))

    # What there is

    def _api_versions(self, request: Request) -> None:
        if request.version < NEWEST_API_VERSIONS:
            throttle = NO_THROTTLE if request.version else b""
            request.reply(SHORT.pack(Code.NONE) + listed(self._offers()) + throttle)
            return
        offers = [offer + NO_TAGS for offer in self._offers()]
        request.reply(SHORT.pack(Code.NONE) + bytes([len(offers) + 1]) + b"".join(offers) + NO_THROTTLE + NO_TAGS)

    def _offers(self) -> list[bytes]:
        return [CHOICE.pack(api.key, api.oldest, api.newest) for api in self._apis.values()]

    def _metadata(self, request: Request) -> None:
        body, version = request.body, request.version
        asked = body.optional_items(body.text)
        wants_all = asked is None or (version == 0 and not asked)
        names = list(self._topics) if wants_all else asked or []
        broker = INT.pack(NODE) + text(self._host) + INT.pack(self._port) + (text(None) if version >= 1 else b"")
        request.reply(
            (NO_THROTTLE if version >= 3 else b"")
            + listed([broker])
            + (text(CLUSTER) if version >= 2 else b"")
            + (INT.pack(NODE) if version >= 1 else b"")
            + listed(self._described(name, version) for name in names)
        )

    def _described(self, name: str, version: int) -> bytes:
        partitions = self._topics.get(name)
        code = Code.UNKNOWN_TOPIC_OR_PARTITION if partitions is None else Code.NONE
        own = listed([INT.pack(NODE)])
        parts = [
            SHORT.pack(Code.NONE) + INT.pack(number) + INT.pack(NODE) + own + own
            for number, _ in enumerate(partitions or ())
        ]
        return SHORT.pack(code) + text(name) + (BYTE.pack(0) if version >= 1 else b"") + listed(parts)

    def _partition(self, topic: str, number: int) -> Partition | None:
        partitions = self._topics.get(topic, ())
        return partitions[number] if 0 <= number < len(partitions) else None

    # Writing and reading

    def _init_producer_id(self, request: Request) -> None:
        self._next_producer += 1
        request.reply(NO_THROTTLE + SHORT.pack(Code.NONE) + LONG.pack(self._next_producer) + SHORT.pack(0))

    def _produce(self, request: Request) -> None:
        body = request.body
        body.optional_text()
        acks = body.int16()
        body.int32()
        answers = body.items(lambda: _of_topic(body, lambda topic: self._append(topic, body.int32(), body.blob())))
        request.reply(listed(answers) + NO_THROTTLE if acks else None)

    def _append(self, topic: str, number: int, records: bytes) -> bytes:
        partition = self._partition(topic, number)
        if partition is None:
            return PRODUCED.pack(number, Code.UNKNOWN_TOPIC_OR_PARTITION, NOTHING, NOTHING)
        try:
            offset = partition.append(Batch.read(records))
        except Refusal as refusal:
            return PRODUCED.pack(number, refusal.code, NOTHING, NOTHING)
        self._fetches.tell(partition)
        return PRODUCED.pack(number, Code.NONE, offset, NOTHING)

    def _fetch(self, request: Request) -> None:
        body = request.body
        _, patience, min_bytes, max_bytes, _ = body.values(FETCH_HEAD)

        def wanted_of_topic() -> list[Wanted]:
            topic = body.text()
            return body.items(lambda: self._wanted(topic, *body.values(FETCH_PART)))

        self._fetches.begin(
            [wanted for each in body.items(wanted_of_topic) for wanted in each],
            patience=patience / MILLISECONDS,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            answer=lambda found: request.reply(NO_THROTTLE + _fetched(found)),
        )

    def _wanted(self, topic: str, number: int, offset: int, max_bytes: int) -> Wanted:
        return Wanted(topic, number, self._partition(topic, number), offset, max_bytes)

    def _list_offsets(self, request: Request) -> None:
        body = request.body
        body.int32()
        request.reply(
            listed(
                body.items(
                    lambda: _of_topic(body, lambda topic: self._listed_offset(topic, body.int32(), body.int64()))
                )
            )
        )

    def _listed_offset(self, topic: str, number: int, timestamp: int) -> bytes:
        partition = self._partition(topic, number)
        if partition is None:
            return LISTED_OFFSET.pack(number, Code.UNKNOWN_TOPIC_OR_PARTITION, NOTHING, NOTHING)
        if timestamp == LATEST:
            offset: int | None = partition.end
        elif timestamp == EARLIEST:
            offset = partition.start
        else:
            offset = partition.offset_at(timestamp)
        return LISTED_OFFSET.pack(number, Code.NONE, NOTHING, NOTHING if offset is None else offset)

    # Groups

    def _find_coordinator(self, request: Request) -> None:
        more = request.version >= 1
        request.reply(
            (NO_THROTTLE if more else b"")
            + SHORT.pack(Code.NONE)
            + (text(None) if more else b"")
            + INT.pack(NODE)
            + text(self._host)
            + INT.pack(self._port)
        )

    def _join_group(self, request: Request) -> None:
        body = request.body
        group, session_timeout = body.text(), body.int32()
        rebalance_timeout = body.int32() if request.version >= 1 else session_timeout
        member_id = body.text()
        body.text()
        candidate = Candidate(
            member_id=member_id,
            client_id=request.client_id,
            session_timeout=session_timeout / MILLISECONDS,
            rebalance_timeout=rebalance_timeout / MILLISECONDS,
            protocols=body.items(lambda: (body.text(), body.blob())),
        )
        throttle = NO_THROTTLE if request.version >= 2 else b""

        def answer(joined: Joined) -> None:
            request.reply(throttle + _joined(joined))

        try:
            self.groups.named(group).join(candidate, answer)
        except Refusal as refusal:
            answer(Joined(refusal.code, member_id))

    def _sync_group(self, request: Request) -> None:
        body = request.body
        group, generation, member_id = body.text(), body.int32(), body.text()
        assignments = dict(body.items(lambda: (body.text(), body.blob())))
        throttle = NO_THROTTLE if request.version >= 1 else b""

        def answer(synced: Synced) -> None:
            request.reply(throttle + SHORT.pack(synced.code) + blob(synced.assignment))

        try:
            self.groups.named(group).sync(member_id, generation, assignments, answer)
        except Refusal as refusal:
            answer(Synced(refusal.code))

    def _heartbeat(self, request: Request) -> None:
        body = request.body
        group, generation, member_id = body.text(), body.int32(), body.text()
        _reply_code(request, lambda: self.groups.named(group).heartbeat(member_id, generation))

    def _leave_group(self, request: Request) -> None:
        group, member_id = request.body.text(), request.body.text()
        _reply_code(request, lambda: self.groups.named(group).leave(member_id))

    def _commit_offsets(self, request: Request) -> None:
        body = request.body
        group, generation, member_id = body.text(), body.int32(), body.text()
        body.int64()
        topics = body.items(lambda: (body.text(), body.items(lambda: (body.int32(), body.int64(), body.text()))))
        offsets: dict[Place, tuple[int, str]] = {
            (topic, number): (offset, note) for topic, parts in topics for number, offset, note in parts
        }
        code = Code.NONE
        try:
            self.groups.named(group).commit(member_id, generation, offsets)
        except Refusal as refusal:
            code = refusal.code
        request.reply(
            listed(
                text(topic) + listed(INT.pack(number) + SHORT.pack(code) for number, _, _ in parts)
                for topic, parts in topics
            )
        )

    def _fetch_offsets(self, request: Request) -> None:
        body = request.body
        name = body.text()
        topics = body.items(lambda: (body.text(), body.items(body.int32)))
        offsets = self.groups.named(name).offsets if name else {}

        def described(topic: str, number: int) -> bytes:
            offset, note = offsets.get((topic, number), (NOTHING, ""))
            return INT.pack(number) + LONG.pack(offset) + text(note) + SHORT.pack(Code.NONE)

        request.reply(
            listed(text(topic) + listed(described(topic, number) for number in numbers) for topic, numbers in topics)
        )


def _of_topic(body: Reader, answer: Callable[[str], bytes]) -> bytes:
    """A topic's part of an answer, made while its part of the request is read."""
    topic = body.text()
    return text(topic) + listed(body.items(lambda: answer(topic)))


def _fetched(found: Iterable[Found]) -> bytes:
    return listed(
        text(topic) + listed(_fetched_part(one) for one in parts)
        for topic, parts in groupby(found, key=lambda one: one.wanted.topic)
    )


def _fetched_part(found: Found) -> bytes:
    wanted = found.wanted
    end = NOTHING if wanted.partition is None else wanted.partition.end
    return FETCHED.pack(wanted.number, found.code, end, end, NOTHING) + blob(found.data)


def _joined(joined: Joined) -> bytes:
    return (
        SHORT.pack(joined.code)
        + INT.pack(joined.generation)
        + text(joined.protocol)
        + text(joined.leader)
        + text(joined.member_id)
        + listed(text(member_id) + blob(metadata) for member_id, metadata in joined.members)
    )


def _reply_code(request: Request, act: Callable[[], None]) -> None:
    code = Code.NONE
    try:
        act()
    except Refusal as refusal:
        code = refusal.code
    request.reply((NO_THROTTLE if request.version >= 1 else b"") + SHORT.pack(code))
