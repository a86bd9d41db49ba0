"""Consumer groups: every round has the same members for everybody, and nobody waits for who is gone."""

import pytest

from engines.kafkalite.errors import Code, Refusal
from engines.kafkalite.groups import Candidate, Group, Groups, Joined, Synced

SESSION, REBALANCE = 10.0, 60.0


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Member:
    """A consumer that does as it is told, when the test lets it."""

    def __init__(self, group: Group, *protocols: str) -> None:
        self.group = group
        self.protocols = protocols or ("range",)
        self.member_id = ""
        self.joined: list[Joined] = []
        self.synced: list[Synced] = []

    @property
    def generation(self) -> int:
        return self.joined[-1].generation

    @property
    def leads(self) -> bool:
        return self.joined[-1].leader == self.member_id

    @property
    def share(self) -> bytes:
        return self.synced[-1].assignment

    def join(self) -> None:
        candidate = Candidate(
            member_id=self.member_id,
            client_id="client",
            session_timeout=SESSION,
            rebalance_timeout=REBALANCE,
            protocols=[(name, f"{name} of {id(self)}".encode()) for name in self.protocols],
        )
        self.group.join(candidate, self._hear)

    def _hear(self, joined: Joined) -> None:
        self.joined.append(joined)
        self.member_id = joined.member_id

    def sync(self) -> None:
        """The leader gives everybody his own name."""
        shares = {name: name.encode() for name, _ in self.joined[-1].members} if self.leads else {}
        self.group.sync(self.member_id, self.generation, shares, self.synced.append)

    def refused(self) -> Code:
        """What a heartbeat is refused with."""
        try:
            self.group.heartbeat(self.member_id, self.generation)
        except Refusal as refusal:
            return refusal.code
        return Code.NONE


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def group(clock: Clock) -> Group:
    return Group(monotonic=clock)


def settled(*members: Member) -> None:
    """Let them go round until they share the partitions."""
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


class TestGoingRound:
    def test_the_first_leads_and_has_everything(self, group: Group) -> None:
        member = Member(group)
        member.join()
        member.sync()
        assert (member.leads, member.generation, member.joined[0].protocol) == (True, 1, "range")
        assert member.share == member.member_id.encode()
        assert member.refused() == Code.NONE

    def test_a_second_makes_the_first_join_again(self, group: Group) -> None:
        one, other = Member(group), Member(group)
        one.join()
        one.sync()
        other.join()
        assert other.joined == []
        assert one.refused() == Code.REBALANCE_IN_PROGRESS
        one.join()
        assert (one.generation, other.generation) == (2, 2)
        assert one.leads
        assert not other.leads
        assert {name for name, _ in one.joined[-1].members} == {one.member_id, other.member_id}
        assert other.joined[-1].members == ()

    def test_the_others_wait_for_the_leaders_division(self, group: Group) -> None:
        one, other = Member(group), Member(group)
        one.join()
        one.sync()
        other.join()
        one.join()
        other.sync()
        assert other.synced == []
        one.sync()
        assert (one.share, other.share) == (one.member_id.encode(), other.member_id.encode())

    def test_who_asks_for_its_share_again_is_told_again(self, two: tuple[Member, Member]) -> None:
        two[1].sync()
        assert [synced.assignment for synced in two[1].synced] == [two[1].member_id.encode()] * 2

    def test_who_leaves_makes_the_others_join_again(self, two: tuple[Member, Member], group: Group) -> None:
        group.leave(two[0].member_id)
        assert two[0].refused() == Code.UNKNOWN_MEMBER_ID
        assert two[1].refused() == Code.REBALANCE_IN_PROGRESS
        two[1].join()
        assert two[1].leads
        two[1].sync()
        assert two[1].refused() == Code.NONE

    def test_who_waits_for_a_share_is_called_to_the_next_round(self, group: Group) -> None:
        one, other, third = Member(group), Member(group), Member(group)
        one.join()
        one.sync()
        other.join()
        one.join()
        other.sync()
        third.join()
        assert other.synced == [Synced(Code.REBALANCE_IN_PROGRESS)]

    def test_the_way_of_dividing_is_one_that_all_know(self, group: Group) -> None:
        one, other = Member(group, "sticky", "range"), Member(group, "range", "sticky")
        settled(one)
        other.join()
        one.join()
        assert {one.joined[-1].protocol, other.joined[-1].protocol} == {"sticky"}

    def test_who_shares_one_with_each_but_none_with_all_is_refused(self, group: Group) -> None:
        one, other, third = Member(group, "x", "y"), Member(group, "y", "z"), Member(group, "x", "z")
        settled(one)
        other.join()
        with pytest.raises(Refusal) as refusal:
            third.join()
        assert refusal.value.code == Code.INCONSISTENT_GROUP_PROTOCOL
        one.join()
        assert one.joined[-1].protocol == other.joined[-1].protocol == "y"

    def test_who_knows_none_of_them_is_refused(self, group: Group) -> None:
        Member(group, "range").join()
        with pytest.raises(Refusal) as refusal:
            Member(group, "sticky").join()
        assert refusal.value.code == Code.INCONSISTENT_GROUP_PROTOCOL


class TestWhoIsGone:
    def test_it_is_given_up_after_its_session(self, two: tuple[Member, Member], group: Group, clock: Clock) -> None:
        clock.now += SESSION
        assert two[1].refused() == Code.NONE
        clock.now += 0.1
        group.expire()
        assert two[0].refused() == Code.UNKNOWN_MEMBER_ID
        assert two[1].refused() == Code.REBALANCE_IN_PROGRESS
        two[1].join()
        assert two[1].leads

    def test_nobody_waits_for_it_in_a_round(self, two: tuple[Member, Member], group: Group, clock: Clock) -> None:
        newcomer = Member(group)
        newcomer.join()
        two[1].join()
        assert newcomer.joined == []
        clock.now += SESSION + 0.1
        group.expire()
        assert newcomer.generation == two[1].generation == 3
        assert two[0].refused() == Code.UNKNOWN_MEMBER_ID

    def test_who_is_heard_of_and_does_not_join_is_given_up_too(
        self, two: tuple[Member, Member], group: Group, clock: Clock
    ) -> None:
        newcomer = Member(group)
        newcomer.join()
        two[1].join()
        for _ in range(int(REBALANCE / SESSION)):
            clock.now += SESSION
            two[0].refused()
            group.expire()
        assert newcomer.generation == 3
        assert two[0].refused() == Code.UNKNOWN_MEMBER_ID

    def test_a_leader_who_does_not_divide_is_given_up(self, group: Group, clock: Clock) -> None:
        one, other = Member(group), Member(group)
        settled(one)
        other.join()
        one.join()
        other.sync()
        clock.now += SESSION + 0.1
        group.expire()
        assert other.synced == [Synced(Code.REBALANCE_IN_PROGRESS)]
        group.expire()
        other.join()
        assert other.leads

    def test_who_waits_and_is_taken_out_by_another_connection_is_answered(self, group: Group) -> None:
        one, other = Member(group), Member(group)
        settled(one)
        other.join()
        one.join()
        other.sync()
        group.leave(other.member_id)
        assert other.synced == [Synced(Code.UNKNOWN_MEMBER_ID)]
        one.join()
        third = Member(group)
        third.join()
        group.leave(one.member_id)
        assert third.leads

    def test_a_group_that_all_have_left_takes_the_next(self, two: tuple[Member, Member], group: Group) -> None:
        for member in two:
            group.leave(member.member_id)
        newcomer = Member(group)
        newcomer.join()
        newcomer.sync()
        assert newcomer.share == newcomer.member_id.encode()


class TestProgress:
    def test_it_is_kept_when_everybody_has_left(self, two: tuple[Member, Member], group: Group) -> None:
        group.commit(two[0].member_id, two[0].generation, {("news", 0): (5, "note")})
        for member in two:
            group.leave(member.member_id)
        assert group.offsets == {("news", 0): (5, "note")}

    def test_who_was_left_behind_commits_nothing(self, two: tuple[Member, Member], group: Group) -> None:
        for member_id, generation, code in (
            (two[0].member_id, 1, Code.ILLEGAL_GENERATION),
            ("stranger", 2, Code.UNKNOWN_MEMBER_ID),
        ):
            with pytest.raises(Refusal) as refusal:
                group.commit(member_id, generation, {("news", 0): (5, "")})
            assert refusal.value.code == code
        assert group.offsets == {}

    def test_who_is_in_no_group_may_commit(self, group: Group) -> None:
        group.commit("", -1, {("news", 0): (5, "")})
        assert group.offsets == {("news", 0): (5, "")}

    def test_while_others_join_it_can_be_told_how_far_one_has_come(
        self, two: tuple[Member, Member], group: Group
    ) -> None:
        Member(group).join()
        group.commit(two[0].member_id, two[0].generation, {("news", 0): (5, "")})
        assert group.offsets == {("news", 0): (5, "")}


class TestGroups:
    def test_they_are_told_apart_by_name(self) -> None:
        groups = Groups()
        assert groups.named("one") is groups.named("one") is not groups.named("other")

    def test_one_without_a_name_is_refused(self) -> None:
        with pytest.raises(Refusal) as refusal:
            Groups().named("")
        assert refusal.value.code == Code.INVALID_GROUP_ID
