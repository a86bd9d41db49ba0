"""Consumer groups: rebalances, expired members, committed offsets."""

import pytest

from engines.kafkalite.errors import ErrorCode, KafkaError
from engines.kafkalite.groups import Group, Groups, JoinRequest, JoinResult, SyncResult

SESSION, REBALANCE = 10.0, 60.0


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Member:
    """A consumer whose requests the test controls."""

    def __init__(self, group: Group, *protocols: str) -> None:
        self.group = group
        self.protocols = protocols or ("range",)
        self.member_id = ""
        self.joined: list[JoinResult] = []
        self.synced: list[SyncResult] = []

    @property
    def generation(self) -> int:
        return self.joined[-1].generation

    @property
    def is_leader(self) -> bool:
        return self.joined[-1].leader == self.member_id

    @property
    def assignment(self) -> bytes:
        return self.synced[-1].assignment

    def join(self) -> None:
        request = JoinRequest(
            member_id=self.member_id,
            client_id="client",
            session_timeout=SESSION,
            rebalance_timeout=REBALANCE,
            protocols=[(name, f"{name} of {id(self)}".encode()) for name in self.protocols],
        )
        self.group.join(request, self._on_join)

    def _on_join(self, result: JoinResult) -> None:
        self.joined.append(result)
        self.member_id = result.member_id

    def sync(self) -> None:
        """The leader assigns to each member the member's own id."""
        assignments = {name: name.encode() for name, _ in self.joined[-1].members} if self.is_leader else {}
        self.group.sync(self.member_id, self.generation, assignments, self.synced.append)

    def heartbeat(self) -> ErrorCode:
        try:
            self.group.heartbeat(self.member_id, self.generation)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def group(clock: Clock) -> Group:
    return Group(monotonic=clock)


def rebalance(*members: Member) -> None:
    """Join and sync until all are in one generation."""
    for member in members:
        member.join()
    for member in members:
        if len(member.joined) < len(members[-1].joined) or member.generation != members[-1].generation:
            member.join()
    for member in members:
        member.sync()


@pytest.fixture
def two(group: Group) -> tuple[Member, Member]:
    one, other = Member(group), Member(group)
    one.join()
    one.sync()
    other.join()
    one.join()
    one.sync()
    other.sync()
    return one, other


class TestRebalancing:
    def test_the_first_member_leads_and_has_every_partition(self, group: Group) -> None:
        member = Member(group)
        member.join()
        member.sync()
        assert (member.is_leader, member.generation, member.joined[0].protocol) == (True, 1, "range")
        assert member.assignment == member.member_id.encode()
        assert member.heartbeat() == ErrorCode.NONE

    def test_a_second_member_makes_the_first_join_again(self, group: Group) -> None:
        one, other = Member(group), Member(group)
        one.join()
        one.sync()
        other.join()
        assert other.joined == []
        assert one.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        one.join()
        assert (one.generation, other.generation) == (2, 2)
        assert one.is_leader
        assert not other.is_leader
        assert {name for name, _ in one.joined[-1].members} == {one.member_id, other.member_id}
        assert other.joined[-1].members == ()

    def test_the_others_wait_for_the_leaders_assignment(self, group: Group) -> None:
        one, other = Member(group), Member(group)
        one.join()
        one.sync()
        other.join()
        one.join()
        other.sync()
        assert other.synced == []
        one.sync()
        assert (one.assignment, other.assignment) == (one.member_id.encode(), other.member_id.encode())

    def test_a_repeated_sync_returns_the_same_assignment(self, two: tuple[Member, Member]) -> None:
        two[1].sync()
        assert [result.assignment for result in two[1].synced] == [two[1].member_id.encode()] * 2

    def test_a_member_that_leaves_makes_the_others_join_again(self, two: tuple[Member, Member], group: Group) -> None:
        group.leave(two[0].member_id)
        assert two[0].heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        assert two[1].heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        two[1].join()
        assert two[1].is_leader
        two[1].sync()
        assert two[1].heartbeat() == ErrorCode.NONE

    def test_a_member_that_waits_for_its_assignment_is_told_to_join_again(self, group: Group) -> None:
        one, other, third = Member(group), Member(group), Member(group)
        one.join()
        one.sync()
        other.join()
        one.join()
        other.sync()
        third.join()
        assert other.synced == [SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)]

    def test_the_protocol_is_one_that_all_members_support(self, group: Group) -> None:
        one, other = Member(group, "sticky", "range"), Member(group, "range", "sticky")
        rebalance(one)
        other.join()
        one.join()
        assert {one.joined[-1].protocol, other.joined[-1].protocol} == {"sticky"}

    def test_a_member_without_a_protocol_in_common_with_all_is_refused(self, group: Group) -> None:
        one, other, third = Member(group, "x", "y"), Member(group, "y", "z"), Member(group, "x", "z")
        rebalance(one)
        other.join()
        with pytest.raises(KafkaError) as raised:
            third.join()
        assert raised.value.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        one.join()
        assert one.joined[-1].protocol == other.joined[-1].protocol == "y"

    def test_a_member_with_only_unknown_protocols_is_refused(self, group: Group) -> None:
        Member(group, "range").join()
        with pytest.raises(KafkaError) as raised:
            Member(group, "sticky").join()
        assert raised.value.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class TestExpiry:
    def test_a_silent_member_expires_after_its_session_timeout(
        self, two: tuple[Member, Member], group: Group, clock: Clock
    ) -> None:
        clock.now += SESSION
        assert two[1].heartbeat() == ErrorCode.NONE
        clock.now += 0.1
        group.expire()
        assert two[0].heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        assert two[1].heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        two[1].join()
        assert two[1].is_leader

    def test_a_rebalance_does_not_wait_for_an_expired_member(
        self, two: tuple[Member, Member], group: Group, clock: Clock
    ) -> None:
        newcomer = Member(group)
        newcomer.join()
        two[1].join()
        assert newcomer.joined == []
        clock.now += SESSION + 0.1
        group.expire()
        assert newcomer.generation == two[1].generation == 3
        assert two[0].heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_member_that_heartbeats_but_does_not_join_expires_too(
        self, two: tuple[Member, Member], group: Group, clock: Clock
    ) -> None:
        newcomer = Member(group)
        newcomer.join()
        two[1].join()
        for _ in range(int(REBALANCE / SESSION)):
            clock.now += SESSION
            two[0].heartbeat()
            group.expire()
        assert newcomer.generation == 3
        assert two[0].heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_leader_that_does_not_assign_expires(self, group: Group, clock: Clock) -> None:
        one, other = Member(group), Member(group)
        rebalance(one)
        other.join()
        one.join()
        other.sync()
        clock.now += SESSION + 0.1
        group.expire()
        assert other.synced == [SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)]
        group.expire()
        other.join()
        assert other.is_leader

    def test_a_waiting_member_that_is_removed_by_another_connection_gets_a_response(self, group: Group) -> None:
        one, other = Member(group), Member(group)
        rebalance(one)
        other.join()
        one.join()
        other.sync()
        group.leave(other.member_id)
        assert other.synced == [SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)]
        one.join()
        third = Member(group)
        third.join()
        group.leave(one.member_id)
        assert third.is_leader

    def test_an_empty_group_accepts_a_new_member(self, two: tuple[Member, Member], group: Group) -> None:
        for member in two:
            group.leave(member.member_id)
        newcomer = Member(group)
        newcomer.join()
        newcomer.sync()
        assert newcomer.assignment == newcomer.member_id.encode()


class TestCommittedOffsets:
    def test_they_are_kept_when_all_members_have_left(self, two: tuple[Member, Member], group: Group) -> None:
        group.commit(two[0].member_id, two[0].generation, {("news", 0): (5, "metadata")})
        for member in two:
            group.leave(member.member_id)
        assert group.offsets == {("news", 0): (5, "metadata")}

    def test_a_member_of_an_old_generation_cannot_commit(self, two: tuple[Member, Member], group: Group) -> None:
        for member_id, generation, code in (
            (two[0].member_id, 1, ErrorCode.ILLEGAL_GENERATION),
            ("stranger", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            with pytest.raises(KafkaError) as raised:
                group.commit(member_id, generation, {("news", 0): (5, "")})
            assert raised.value.code == code
        assert group.offsets == {}

    def test_a_consumer_without_membership_may_commit(self, group: Group) -> None:
        group.commit("", -1, {("news", 0): (5, "")})
        assert group.offsets == {("news", 0): (5, "")}

    def test_a_consumer_without_membership_cannot_commit_while_there_are_members(
        self, two: tuple[Member, Member], group: Group
    ) -> None:
        with pytest.raises(KafkaError, match=r"UNKNOWN_MEMBER_ID"):
            group.commit("", -1, {("news", 0): (5, "")})
        assert group.offsets == {}

    def test_a_member_may_commit_during_a_rebalance(self, two: tuple[Member, Member], group: Group) -> None:
        Member(group).join()
        group.commit(two[0].member_id, two[0].generation, {("news", 0): (5, "")})
        assert group.offsets == {("news", 0): (5, "")}


class TestGroups:
    def test_they_are_separate_by_name(self) -> None:
        groups = Groups()
        assert groups.get_or_create("one") is groups.get_or_create("one") is not groups.get_or_create("other")

    def test_an_empty_name_is_refused(self) -> None:
        with pytest.raises(KafkaError) as raised:
            Groups().get_or_create("")
        assert raised.value.code == ErrorCode.INVALID_GROUP_ID
