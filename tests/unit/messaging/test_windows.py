import pytest

from messaging.services.history import MAX_SPAN, Window, merged


class TestBounds:
    @pytest.mark.parametrize(
        ("window", "latest", "bounds"),
        [
            (Window(after=0, limit=10), 25, (1, 10)),
            (Window(after=20, limit=10), 25, (21, 25)),
            (Window(after=25, limit=10), 25, (26, 25)),
            (Window(before=11, limit=10), 25, (1, 10)),
            (Window(before=1000, limit=10), 25, (16, 25)),
            (Window(before=1, limit=10), 25, (1, 0)),
            (Window(limit=10), 25, (16, 25)),
            (Window(limit=10), 3, (1, 3)),
            (Window(limit=10), 0, (1, 0)),
        ],
    )
    def test_a_page_is_known_by_its_first_and_last_sequence(
        self, window: Window, latest: int, bounds: tuple[int, int]
    ) -> None:
        assert window.bounds(latest) == bounds


class TestMerging:
    def test_overlapping_and_touching_pages_become_one(self) -> None:
        assert list(merged([(1, 100), (50, 149), (150, 160)])) == [(1, 160)]

    def test_pages_apart_stay_apart(self) -> None:
        assert list(merged([(300, 310), (1, 10)])) == [(1, 10), (300, 310)]

    def test_empty_pages_are_not_read(self) -> None:
        assert list(merged([(26, 25), (1, 0)])) == []

    def test_no_span_grows_beyond_two_pages(self) -> None:
        spans = list(merged([(first, first + 99) for first in range(1, 1000, 10)]))
        assert all(last - first < MAX_SPAN for first, last in spans)
        assert set(range(1, 1091)) == {each for first, last in spans for each in range(first, last + 1)}
