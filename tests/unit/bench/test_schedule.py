import pytest

from bench.schedule import Schedule


class TestSchedule:
    def test_sends_are_due_at_even_distances(self) -> None:
        schedule = Schedule(4, start=100.0)
        assert list(schedule.due(101.0)) == pytest.approx([100.0, 100.25, 100.5, 100.75, 101.0])

    def test_nothing_is_due_before_the_beginning(self) -> None:
        assert list(Schedule(4, start=100.0).due(99.9)) == []

    def test_each_send_is_due_once(self) -> None:
        schedule = Schedule(10, start=0.0)
        times = [due for now in (0.0, 0.05, 0.31, 0.31, 0.99) for due in schedule.due(now)]
        assert times == pytest.approx([number / 10 for number in range(10)])
        assert schedule.issued == 10

    def test_a_late_caller_gets_the_intended_times(self) -> None:
        schedule = Schedule(1_000, start=0.0)
        late = list(schedule.due(2.0))
        assert len(late) == 2_001
        assert late[0] == 0.0
        assert late[1] == pytest.approx(0.001)
