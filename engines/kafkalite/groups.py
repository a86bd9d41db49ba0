"""Consumer groups: members, their assignments, and the committed offsets.

A rebalance has two phases: all members join, then the leader assigns the partitions and each member gets its
assignment by a sync. A member that joins, leaves or expires starts a rebalance. No I/O: responses go to callables, the
clock is passed in, and `expire` must be called periodically.
"""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from engines.kafkalite.errors import ErrorCode, KafkaError

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The response to a join. Only the leader gets `members`, to assign the partitions."""

    code: ErrorCode
    member_id: str
    generation: int = -1
    protocol: str = ""
    leader: str = ""
    members: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The response to a sync: the member's assignment."""

    code: ErrorCode
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """`protocols` are the member's assignment protocols with its metadata, the preferred one first."""

    member_id: str
    client_id: str
    session_timeout: float
    rebalance_timeout: float
    protocols: Sequence[tuple[str, bytes]]


@dataclass(slots=True, eq=False)
class _Member:
    """`on_join` and `on_sync` are set while a request of the member waits for its response."""

    member_id: str
    request: JoinRequest
    last_seen: float
    on_join: Callable[[JoinResult], None] | None = None
    on_sync: Callable[[SyncResult], None] | None = None
    assignment: bytes = b""

    @property
    def is_waiting(self) -> bool:
        return self.on_join is not None or self.on_sync is not None

    def metadata(self, protocol: str) -> bytes:
        return dict(self.request.protocols)[protocol]


class _State(Enum):
    """Kafka's names: PREPARING while members join, COMPLETING until the leader has assigned the partitions."""

    STABLE = auto()
    PREPARING_REBALANCE = auto()
    COMPLETING_REBALANCE = auto()


_STATE_NAMES = {
    _State.STABLE: "Stable",
    _State.PREPARING_REBALANCE: "PreparingRebalance",
    _State.COMPLETING_REBALANCE: "CompletingRebalance",
}


class Group:
    """One group. The responses to `join` and `sync` may come later."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._members: dict[str, _Member] = {}
        self._state = _State.STABLE
        self._generation = 0
        self._join_deadline = 0.0
        self.offsets: dict[TopicPartition, tuple[int, str]] = {}

    def join(self, request: JoinRequest, respond: Callable[[JoinResult], None]) -> None:
        """Respond once every member has joined or expired. Raises `KafkaError`."""
        others = [member.request for member in self._members.values() if member.member_id != request.member_id]
        if not _common_protocols([request, *others]):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.member_id:
            member = self._touch(request.member_id)
            member.request = request
        else:
            member = _Member(f"{request.client_id}-{uuid.uuid4()}", request, self._monotonic())
            self._members[member.member_id] = member
        member.on_join = respond
        self._prepare_rebalance()
        self._complete_join()

    def sync(
        self, member_id: str, generation: int, assignments: Mapping[str, bytes], respond: Callable[[SyncResult], None]
    ) -> None:
        """Respond once the leader has assigned the partitions. Raises `KafkaError`."""
        member = self._touch_current(member_id, generation)
        if self._state is _State.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        member.on_sync = respond
        if self._state is _State.COMPLETING_REBALANCE and member is self._leader:
            for each in self._members.values():
                each.assignment = assignments.get(each.member_id, b"")
            self._state = _State.STABLE
        if self._state is _State.STABLE:
            for each in self._members.values():
                self._complete_sync(each, SyncResult(ErrorCode.NONE, each.assignment))

    def heartbeat(self, member_id: str, generation: int) -> None:
        """Raises `KafkaError`; REBALANCE_IN_PROGRESS tells the member to join again."""
        self._touch_current(member_id, generation)
        if self._state is _State.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, member_id: str) -> None:
        self._touch(member_id)
        self._remove([member_id])

    def commit(self, member_id: str, generation: int, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Store offsets. Raises `KafkaError` for a member of an old generation.

        A client that is not a member commits with a negative generation, and only while the group has no members.
        """
        if generation >= 0 or member_id:
            self._touch_current(member_id, generation)
        elif self._members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        self.offsets.update(offsets)

    def expire(self) -> None:
        """Remove members whose session has timed out, and those that did not join a rebalance in time.

        A member that waits for a response does not expire.
        """
        now = self._monotonic()
        is_late = self._state is _State.PREPARING_REBALANCE and now >= self._join_deadline
        expired = [
            member.member_id
            for member in self._members.values()
            if not member.is_waiting and (is_late or now - member.last_seen > member.request.session_timeout)
        ]
        if expired:
            self._remove(expired)

    @property
    def state_name(self) -> str:
        """Kafka's name of the state."""
        return _STATE_NAMES[self._state] if self._members else "Empty"

    @property
    def protocol(self) -> str:
        """The assignment protocol of the present generation."""
        common = _common_protocols([member.request for member in self._members.values()]) if self._members else []
        return common[0] if common else ""

    def describe_members(self) -> list[tuple[str, str, bytes, bytes]]:
        """Id, client id, metadata and assignment of each member."""
        protocol = self.protocol
        return [
            (member.member_id, member.request.client_id, member.metadata(protocol), member.assignment)
            for member in self._members.values()
        ]

    @property
    def _leader(self) -> _Member:
        return next(iter(self._members.values()))

    def _touch(self, member_id: str) -> _Member:
        member = self._members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member.last_seen = self._monotonic()
        return member

    def _touch_current(self, member_id: str, generation: int) -> _Member:
        member = self._touch(member_id)
        if generation != self._generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def _remove(self, member_ids: Sequence[str]) -> None:
        for member_id in member_ids:
            member = self._members.pop(member_id)
            self._complete_sync(member, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
            if member.on_join is not None:
                member.on_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
        if self._members:
            self._prepare_rebalance()
            self._complete_join()
        else:
            self._state = _State.STABLE

    def _prepare_rebalance(self) -> None:
        """Make all members join again. Those that wait for a sync learn it now, the others by their next heartbeat."""
        if self._state is _State.PREPARING_REBALANCE:
            return
        self._state = _State.PREPARING_REBALANCE
        timeout = max(member.request.rebalance_timeout for member in self._members.values())
        self._join_deadline = self._monotonic() + timeout
        for member in self._members.values():
            self._complete_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))

    def _complete_join(self) -> None:
        """Begin the next generation if all members have joined."""
        members = list(self._members.values())
        if any(member.on_join is None for member in members):
            return
        self._generation += 1
        self._state = _State.COMPLETING_REBALANCE
        protocol = _common_protocols([member.request for member in members])[0]
        metadata = [(member.member_id, member.metadata(protocol)) for member in members]
        leader = members[0]
        for member in members:
            respond, member.on_join = member.on_join, None
            member.last_seen = self._monotonic()
            if respond is not None:
                visible = metadata if member is leader else ()
                generation = self._generation
                respond(JoinResult(ErrorCode.NONE, member.member_id, generation, protocol, leader.member_id, visible))

    def _complete_sync(self, member: _Member, result: SyncResult) -> None:
        if member.on_sync is not None:
            respond, member.on_sync = member.on_sync, None
            member.last_seen = self._monotonic()
            respond(result)


def _common_protocols(requests: Sequence[JoinRequest]) -> list[str]:
    """The protocols that all members support, in the order of the first member."""
    first, *others = ([name for name, _ in request.protocols] for request in requests)
    return [name for name in first if all(name in other for other in others)]


@dataclass(slots=True)
class Groups:
    """All groups by name."""

    monotonic: Callable[[], float] = time.monotonic
    _groups: dict[str, Group] = field(default_factory=dict)

    def get_or_create(self, name: str) -> Group:
        """Raises `KafkaError` for an empty name."""
        if not name:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(monotonic=self.monotonic)
        return group

    def find(self, name: str) -> Group | None:
        return self._groups.get(name)

    def expire(self) -> None:
        for group in self._groups.values():
            group.expire()
