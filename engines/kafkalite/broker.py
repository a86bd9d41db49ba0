"""The requests of Kafka's protocol and their responses."""

import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from struct import Struct

from engines.kafkalite.errors import ErrorCode, KafkaError
from engines.kafkalite.fetches import Fetches, FetchResult, PartitionFetch
from engines.kafkalite.groups import Group, Groups, JoinRequest, JoinResult, SyncResult, TopicPartition
from engines.kafkalite.log import Batch, Partition
from engines.kafkalite.wire import INT8, INT16, INT32, INT64, ProtocolError, Reader, array, blob, string

NODE_ID = 0
CLUSTER_ID = "kafkalite"
LATEST, EARLIEST = -1, -2
NO_OFFSET = NO_TIMESTAMP = -1
API_VERSIONS, MAX_API_VERSIONS = 18, 3
NO_THROTTLE = INT32.pack(0)
NO_TAGS = b"\0"
TOPIC_RESOURCE = 2
# Read-only, a default, not sensitive.
IS_READ_ONLY_DEFAULT = b"\1\1\0"
MILLISECONDS = 1000  # per second

REQUEST_HEADER, VERSION_RANGE = Struct(">hhi"), Struct(">hhh")
FETCH_HEADER, FETCH_PARTITION, FETCH_RESULT = Struct(">iiiib"), Struct(">iqi"), Struct(">ihqqi")
PRODUCE_RESULT, OFFSET_RESULT = Struct(">ihqq"), Struct(">ihqq")
NO_ABORTED_TRANSACTIONS = -1

Respond = Callable[[bytes | None], None]


@dataclass(frozen=True, slots=True)
class Request:
    """A request after its header. `respond` sends the response, now or later; None means that there is none."""

    version: int
    client_id: str
    body: Reader
    respond: Respond


@dataclass(frozen=True, slots=True)
class Api:
    """A kind of request and the versions that are offered."""

    key: int
    min_version: int
    max_version: int
    handle: Callable[[Request], None]


class Broker:
    """The only broker of its cluster. On one event loop."""

    def __init__(self, *, host: str, port: int, topics: Mapping[str, int]) -> None:
        self._host, self._port = host, port
        self._topics = {name: [Partition() for _ in range(count)] for name, count in topics.items()}
        self._fetches = Fetches()
        self.groups = Groups()
        self._started_at = time.monotonic()
        # Random, so that producers of a previous process do not share an id with new ones.
        self._last_producer_id = random.getrandbits(48)
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
                Api(15, 0, 0, self._describe_groups),
                Api(API_VERSIONS, 0, MAX_API_VERSIONS, self._api_versions),
                Api(22, 0, 0, self._init_producer_id),
                Api(32, 0, 0, self._describe_configs),
            )
        }

    def handle(self, frame: bytes, send: Respond) -> None:
        """Handle a request; `send` receives the whole response. Raises `ProtocolError`."""
        reader = Reader(frame)
        key, version, correlation_id = reader.struct(REQUEST_HEADER)
        client_id = reader.string()
        api = self._apis.get(key)
        if api is None:
            raise ProtocolError(f"request {key} is not offered")
        header = INT32.pack(correlation_id)

        def respond(body: bytes | None) -> None:
            send(None if body is None else header + body)

        if key == API_VERSIONS and version > MAX_API_VERSIONS:
            # In version 0, which every client can read, so that it retries with an offered version.
            respond(INT16.pack(ErrorCode.UNSUPPORTED_VERSION) + array(self._version_ranges()))
        elif not api.min_version <= version <= api.max_version:
            raise ProtocolError(f"version {version} of request {key} is not offered")
        else:
            api.handle(Request(version, client_id, reader, respond))

    # Metadata

    def _api_versions(self, request: Request) -> None:
        if request.version < MAX_API_VERSIONS:
            throttle = NO_THROTTLE if request.version else b""
            request.respond(INT16.pack(ErrorCode.NONE) + array(self._version_ranges()) + throttle)
            return
        ranges = [each + NO_TAGS for each in self._version_ranges()]
        request.respond(
            INT16.pack(ErrorCode.NONE) + bytes([len(ranges) + 1]) + b"".join(ranges) + NO_THROTTLE + NO_TAGS
        )

    def _version_ranges(self) -> list[bytes]:
        return [VERSION_RANGE.pack(api.key, api.min_version, api.max_version) for api in self._apis.values()]

    def _metadata(self, request: Request) -> None:
        body, version = request.body, request.version
        requested = body.nullable_array(body.string)
        is_all = requested is None or (version == 0 and not requested)
        names = list(self._topics) if is_all else requested or []
        broker = (
            INT32.pack(NODE_ID) + string(self._host) + INT32.pack(self._port) + (string(None) if version >= 1 else b"")
        )
        request.respond(
            (NO_THROTTLE if version >= 3 else b"")
            + array([broker])
            + (string(CLUSTER_ID) if version >= 2 else b"")
            + (INT32.pack(NODE_ID) if version >= 1 else b"")
            + array(self._topic_metadata(name, version) for name in names)
        )

    def _topic_metadata(self, name: str, version: int) -> bytes:
        partitions = self._topics.get(name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partitions is None else ErrorCode.NONE
        replicas = array([INT32.pack(NODE_ID)])
        described = [
            INT16.pack(ErrorCode.NONE) + INT32.pack(number) + INT32.pack(NODE_ID) + replicas + replicas
            for number, _ in enumerate(partitions or ())
        ]
        return INT16.pack(code) + string(name) + (INT8.pack(0) if version >= 1 else b"") + array(described)

    def _describe_configs(self, request: Request) -> None:
        body = request.body
        resources = body.array(lambda: (body.int8(), body.string(), body.nullable_array(body.string)))
        request.respond(NO_THROTTLE + array(self._config(kind, name, wanted) for kind, name, wanted in resources))

    def _config(self, kind: int, name: str, wanted: list[str] | None) -> bytes:
        """The settings of a topic; other resources have none."""
        code, message, entries = ErrorCode.NONE, None, []
        if kind != TOPIC_RESOURCE:
            code, message = ErrorCode.INVALID_REQUEST, "only topics have settings"
        elif name not in self._topics:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            entries = [(key, value) for key, value in self._topic_config().items() if wanted is None or key in wanted]
        described = [string(key) + string(value) + IS_READ_ONLY_DEFAULT for key, value in entries]
        return INT16.pack(code) + string(message) + INT8.pack(kind) + string(name) + array(described)

    def _topic_config(self) -> dict[str, str]:
        """The log begins with this process, and promises to reach back no further."""
        age = int((time.monotonic() - self._started_at) * MILLISECONDS)
        return {"cleanup.policy": "delete", "retention.ms": str(age), "min.insync.replicas": "1"}

    def _partition(self, topic: str, number: int) -> Partition | None:
        partitions = self._topics.get(topic, ())
        return partitions[number] if 0 <= number < len(partitions) else None

    # Records

    def _init_producer_id(self, request: Request) -> None:
        self._last_producer_id += 1
        request.respond(NO_THROTTLE + INT16.pack(ErrorCode.NONE) + INT64.pack(self._last_producer_id) + INT16.pack(0))

    def _produce(self, request: Request) -> None:
        body = request.body
        body.nullable_string()
        acks = body.int16()
        body.int32()
        results = body.array(lambda: _read_topic(body, lambda topic: self._append(topic, body.int32(), body.blob())))
        request.respond(array(results) + NO_THROTTLE if acks else None)

    def _append(self, topic: str, number: int, records: bytes) -> bytes:
        partition = self._partition(topic, number)
        if partition is None:
            return PRODUCE_RESULT.pack(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_OFFSET, NO_TIMESTAMP)
        try:
            offset = partition.append(Batch.read(records))
        except KafkaError as error:
            return PRODUCE_RESULT.pack(number, error.code, NO_OFFSET, NO_TIMESTAMP)
        self._fetches.notify(partition)
        return PRODUCE_RESULT.pack(number, ErrorCode.NONE, offset, NO_TIMESTAMP)

    def _fetch(self, request: Request) -> None:
        body = request.body
        _, max_wait, min_bytes, max_bytes, _ = body.struct(FETCH_HEADER)

        def read_topic() -> list[PartitionFetch]:
            topic = body.string()
            return body.array(lambda: self._partition_fetch(topic, *body.struct(FETCH_PARTITION)))

        self._fetches.start(
            [fetch for topic in body.array(read_topic) for fetch in topic],
            max_wait=max_wait / MILLISECONDS,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            respond=lambda results: request.respond(NO_THROTTLE + _fetch_response(results)),
        )

    def _partition_fetch(self, topic: str, number: int, offset: int, max_bytes: int) -> PartitionFetch:
        return PartitionFetch(topic, number, self._partition(topic, number), offset, max_bytes)

    def _list_offsets(self, request: Request) -> None:
        body = request.body
        body.int32()
        results = body.array(
            lambda: _read_topic(body, lambda topic: self._list_offset(topic, body.int32(), body.int64()))
        )
        request.respond(array(results))

    def _list_offset(self, topic: str, number: int, timestamp: int) -> bytes:
        partition = self._partition(topic, number)
        if partition is None:
            return OFFSET_RESULT.pack(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_TIMESTAMP, NO_OFFSET)
        if timestamp == LATEST:
            offset: int | None = partition.end
        elif timestamp == EARLIEST:
            offset = partition.start
        else:
            offset = partition.offset_for_timestamp(timestamp)
        return OFFSET_RESULT.pack(number, ErrorCode.NONE, NO_TIMESTAMP, NO_OFFSET if offset is None else offset)

    # Groups

    def _find_coordinator(self, request: Request) -> None:
        has_details = request.version >= 1
        request.respond(
            (NO_THROTTLE if has_details else b"")
            + INT16.pack(ErrorCode.NONE)
            + (string(None) if has_details else b"")
            + INT32.pack(NODE_ID)
            + string(self._host)
            + INT32.pack(self._port)
        )

    def _join_group(self, request: Request) -> None:
        body = request.body
        group, session_timeout = body.string(), body.int32()
        rebalance_timeout = body.int32() if request.version >= 1 else session_timeout
        member_id = body.string()
        body.string()
        join = JoinRequest(
            member_id=member_id,
            client_id=request.client_id,
            session_timeout=session_timeout / MILLISECONDS,
            rebalance_timeout=rebalance_timeout / MILLISECONDS,
            protocols=body.array(lambda: (body.string(), body.blob())),
        )
        throttle = NO_THROTTLE if request.version >= 2 else b""

        def respond(result: JoinResult) -> None:
            request.respond(throttle + _join_response(result))

        try:
            self.groups.get_or_create(group).join(join, respond)
        except KafkaError as error:
            respond(JoinResult(error.code, member_id))

    def _sync_group(self, request: Request) -> None:
        body = request.body
        group, generation, member_id = body.string(), body.int32(), body.string()
        assignments = dict(body.array(lambda: (body.string(), body.blob())))
        throttle = NO_THROTTLE if request.version >= 1 else b""

        def respond(result: SyncResult) -> None:
            request.respond(throttle + INT16.pack(result.code) + blob(result.assignment))

        try:
            self.groups.get_or_create(group).sync(member_id, generation, assignments, respond)
        except KafkaError as error:
            respond(SyncResult(error.code))

    def _heartbeat(self, request: Request) -> None:
        body = request.body
        group, generation, member_id = body.string(), body.int32(), body.string()
        _respond_with_code(request, lambda: self.groups.get_or_create(group).heartbeat(member_id, generation))

    def _leave_group(self, request: Request) -> None:
        group, member_id = request.body.string(), request.body.string()
        _respond_with_code(request, lambda: self.groups.get_or_create(group).leave(member_id))

    def _describe_groups(self, request: Request) -> None:
        names = request.body.array(request.body.string)
        request.respond(array(_group_description(name, self.groups.find(name)) for name in names))

    def _commit_offsets(self, request: Request) -> None:
        body = request.body
        group, generation, member_id = body.string(), body.int32(), body.string()
        body.int64()
        topics = body.array(lambda: (body.string(), body.array(lambda: (body.int32(), body.int64(), body.string()))))
        offsets: dict[TopicPartition, tuple[int, str]] = {
            (topic, number): (offset, metadata) for topic, parts in topics for number, offset, metadata in parts
        }
        code = ErrorCode.NONE
        try:
            self.groups.get_or_create(group).commit(member_id, generation, offsets)
        except KafkaError as error:
            code = error.code
        request.respond(
            array(
                string(topic) + array(INT32.pack(number) + INT16.pack(code) for number, _, _ in parts)
                for topic, parts in topics
            )
        )

    def _fetch_offsets(self, request: Request) -> None:
        body = request.body
        name = body.string()
        topics = body.array(lambda: (body.string(), body.array(body.int32)))
        offsets = self.groups.get_or_create(name).offsets if name else {}

        def result(topic: str, number: int) -> bytes:
            offset, metadata = offsets.get((topic, number), (NO_OFFSET, ""))
            return INT32.pack(number) + INT64.pack(offset) + string(metadata) + INT16.pack(ErrorCode.NONE)

        request.respond(
            array(string(topic) + array(result(topic, number) for number in numbers) for topic, numbers in topics)
        )


def _read_topic(body: Reader, handle: Callable[[str], bytes]) -> bytes:
    """Read a topic's part of a request and return its part of the response. `handle` reads one partition."""
    topic = body.string()
    return string(topic) + array(body.array(lambda: handle(topic)))


def _fetch_response(results: Iterable[FetchResult]) -> bytes:
    return array(
        string(topic) + array(_fetch_result(result) for result in group)
        for topic, group in groupby(results, key=lambda result: result.request.topic)
    )


def _fetch_result(result: FetchResult) -> bytes:
    partition = result.request.partition
    end = NO_OFFSET if partition is None else partition.end
    return FETCH_RESULT.pack(result.request.number, result.code, end, end, NO_ABORTED_TRANSACTIONS) + blob(result.data)


def _join_response(result: JoinResult) -> bytes:
    return (
        INT16.pack(result.code)
        + INT32.pack(result.generation)
        + string(result.protocol)
        + string(result.leader)
        + string(result.member_id)
        + array(string(member_id) + blob(metadata) for member_id, metadata in result.members)
    )


def _group_description(name: str, group: Group | None) -> bytes:
    """A group that nobody knows is dead: Kafka's word for one without members and offsets."""
    members = [] if group is None else group.describe_members()
    return (
        INT16.pack(ErrorCode.NONE)
        + string(name)
        + string("Dead" if group is None else group.state_name)
        + string("consumer" if members else "")
        + string("" if group is None else group.protocol)
        + array(
            string(member_id) + string(client_id) + string("") + blob(metadata) + blob(assignment)
            for member_id, client_id, metadata, assignment in members
        )
    )


def _respond_with_code(request: Request, handle: Callable[[], None]) -> None:
    code = ErrorCode.NONE
    try:
        handle()
    except KafkaError as error:
        code = error.code
    request.respond((NO_THROTTLE if request.version >= 1 else b"") + INT16.pack(code))
