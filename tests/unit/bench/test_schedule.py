import pytest

from bench.schedule import Schedule


class TestSchedule:
    def test_sends_are_due_at_even_distances(self) -> None:
        schedule = Schedule(4, begun=100.0)
        assert list(schedule.due(101.0)) == pytest.approx([100.0, 100.25, 100.5, 100.75, 101.0])

    def test_nothing_is_due_before_the_beginning(self) -> None:
        assert list(Schedule(4, begun=100.0).due(99.9)) == []

    def test_each_send_is_due_once(self) -> None:
        schedule = Schedule(10, begun=0.0)
        moments = [moment for now in (0.0, 0.05, 0.31, 0.31, 0.99) for moment in schedule.due(now)]
        assert moments == pytest.approx([number / 10 for number in range(10)])
        assert schedule.given == 10

    def test_who_comes_late_is_told_when_it_was_due(self) -> None:
        schedule = Schedule(1_000, begun=0.0)
        late = list(schedule.due(2.0))
        assert len(late) == 2_001
        assert late[0] == 0.0
        assert late[1] == pytest.approx(0.001)
