"""Consumer groups: who is in one, who reads what, and how far they have come.

A group goes round: members join, the first of them divides the partitions among all, each is told its share. Whoever
comes, leaves, or is not heard of for too long makes it go round again. Pure bookkeeping: no I/O, and time only as
`monotonic` tells it; `expire` is to be called now and then.
"""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from engines.kafkalite.errors import Code, Refusal

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Joined:
    """A round's beginning, for one member. `members` is for the leader alone, who divides the partitions."""

    code: Code
    member_id: str
    generation: int = -1
    protocol: str = ""
    leader: str = ""
    members: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Synced:
    """A member's share."""

    code: Code
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Who asks to join, and how it would have partitions divided, the best first."""

    member_id: str
    client_id: str
    session_timeout: float
    rebalance_timeout: float
    protocols: Sequence[tuple[str, bytes]]


@dataclass(slots=True, eq=False)
class _Member:
    member_id: str
    candidate: Candidate
    heard_at: float
    joining: Callable[[Joined], None] | None = None
    syncing: Callable[[Synced], None] | None = None
    assignment: bytes = b""

    @property
    def is_waiting(self) -> bool:
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol: str) -> bytes:
        return dict(self.candidate.protocols)[protocol]


class _State(Enum):
    STABLE = auto()
    JOINING = auto()
    DIVIDING = auto()


class Group:
    """One group. Answers may come later, by the callables that its methods are given."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._members: dict[str, _Member] = {}
        self._state = _State.STABLE
        self._generation = 0
        self._join_until = 0.0
        self.offsets: dict[Place, tuple[int, str]] = {}

    def join(self, candidate: Candidate, answer: Callable[[Joined], None]) -> None:
        """Answered when everybody has joined, or has been given up. Raises `Refusal`."""
        others = [member.candidate for member in self._members.values() if member.member_id != candidate.member_id]
        if not _common_protocols([candidate, *others]):
            raise Refusal(Code.INCONSISTENT_GROUP_PROTOCOL)
        if candidate.member_id:
            member = self._heard(candidate.member_id)
            member.candidate = candidate
        else:
            member = _Member(f"{candidate.client_id}-{uuid.uuid4()}", candidate, self._monotonic())
            self._members[member.member_id] = member
        member.joining = answer
        self._go_round()
        self._begin_when_all_are_there()

    def sync(
        self, member_id: str, generation: int, assignments: Mapping[str, bytes], answer: Callable[[Synced], None]
    ) -> None:
        """Answered when the leader has divided the partitions. Raises `Refusal`."""
        member = self._current(member_id, generation)
        if self._state is _State.JOINING:
            raise Refusal(Code.REBALANCE_IN_PROGRESS)
        member.syncing = answer
        if self._state is _State.DIVIDING and member is self._leader:
            for one in self._members.values():
                one.assignment = assignments.get(one.member_id, b"")
            self._state = _State.STABLE
        if self._state is _State.STABLE:
            for one in self._members.values():
                self._tell(one, Synced(Code.NONE, one.assignment))

    def heartbeat(self, member_id: str, generation: int) -> None:
        """Raises `Refusal`, also to call a member to the next round."""
        self._current(member_id, generation)
        if self._state is _State.JOINING:
            raise Refusal(Code.REBALANCE_IN_PROGRESS)

    def leave(self, member_id: str) -> None:
        self._heard(member_id)
        self._remove([member_id])

    def commit(self, member_id: str, generation: int, offsets: Mapping[Place, tuple[int, str]]) -> None:
        """Note how far the group has come. Raises `Refusal` for who has been left behind.

        Who reads without being a member says so by a generation below zero.
        """
        if generation >= 0 or member_id:
            self._current(member_id, generation)
        self.offsets.update(offsets)

    def expire(self) -> None:
        """Give up members that were not heard of for too long, and those who are late for a round.

        Who waits for an answer is given up after it, if it is not heard of then.
        """
        now = self._monotonic()
        is_late = self._state is _State.JOINING and now >= self._join_until
        gone = [
            member.member_id
            for member in self._members.values()
            if not member.is_waiting and (is_late or now - member.heard_at > member.candidate.session_timeout)
        ]
        if gone:
            self._remove(gone)

    @property
    def _leader(self) -> _Member:
        return next(iter(self._members.values()))

    def _heard(self, member_id: str) -> _Member:
        member = self._members.get(member_id)
        if member is None:
            raise Refusal(Code.UNKNOWN_MEMBER_ID)
        member.heard_at = self._monotonic()
        return member

    def _current(self, member_id: str, generation: int) -> _Member:
        member = self._heard(member_id)
        if generation != self._generation:
            raise Refusal(Code.ILLEGAL_GENERATION)
        return member

    def _remove(self, member_ids: Sequence[str]) -> None:
        for member_id in member_ids:
            member = self._members.pop(member_id)
            self._tell(member, Synced(Code.UNKNOWN_MEMBER_ID))
            if member.joining is not None:
                member.joining(Joined(Code.UNKNOWN_MEMBER_ID, member_id))
        if self._members:
            self._go_round()
            self._begin_when_all_are_there()
        else:
            self._state = _State.STABLE

    def _go_round(self) -> None:
        """Everybody is to join again: who waits for a share is told now, others with their next heartbeat."""
        if self._state is _State.JOINING:
            return
        self._state = _State.JOINING
        patience = max(member.candidate.rebalance_timeout for member in self._members.values())
        self._join_until = self._monotonic() + patience
        for member in self._members.values():
            self._tell(member, Synced(Code.REBALANCE_IN_PROGRESS))

    def _begin_when_all_are_there(self) -> None:
        members = list(self._members.values())
        if any(member.joining is None for member in members):
            return
        self._generation += 1
        self._state = _State.DIVIDING
        protocol = _common_protocols([member.candidate for member in members])[0]
        every = [(member.member_id, member.metadata(protocol)) for member in members]
        leader = members[0]
        for member in members:
            answer, member.joining = member.joining, None
            member.heard_at = self._monotonic()
            if answer is not None:
                known = every if member is leader else ()
                answer(Joined(Code.NONE, member.member_id, self._generation, protocol, leader.member_id, known))

    def _tell(self, member: _Member, synced: Synced) -> None:
        if member.syncing is not None:
            answer, member.syncing = member.syncing, None
            member.heard_at = self._monotonic()
            answer(synced)


def _common_protocols(candidates: Sequence[Candidate]) -> list[str]:
    """The ways of dividing that all know, in the order of the first."""
    first, *others = ([name for name, _ in candidate.protocols] for candidate in candidates)
    return [name for name in first if all(name in other for other in others)]


@dataclass(slots=True)
class Groups:
    """All groups by name, made when first asked for."""

    monotonic: Callable[[], float] = time.monotonic
    _groups: dict[str, Group] = field(default_factory=dict)

    def named(self, name: str) -> Group:
        """Raises `Refusal` for no name at all."""
        if not name:
            raise Refusal(Code.INVALID_GROUP_ID)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(monotonic=self.monotonic)
        return group

    def expire(self) -> None:
        for group in self._groups.values():
            group.expire()
