import math

import pytest

from bench.figures import Spread, format_number, latency_figures, percentile, summarise, table
from bench.window import Window, measure_window


class TestPercentile:
    def test_it_is_a_value_that_was_measured(self) -> None:
        values = [float(number) for number in range(100, 0, -1)]
        assert percentile(values, 0.5) == 51
        assert percentile(values, 0.99) == 100

    def test_the_percentile_of_one_value_is_that_value(self) -> None:
        assert percentile([7.0], 0.99) == 7

    def test_without_values_the_percentile_is_not_a_number(self) -> None:
        assert math.isnan(percentile([], 0.5))

    def test_nothing_measured_gives_no_figures(self) -> None:
        assert latency_figures("ack", []) == {}

    def test_seconds_become_milliseconds(self) -> None:
        assert latency_figures("ack", [0.25]) == {"ack_p50_ms": 250, "ack_p99_ms": 250}


class TestSummary:
    def test_a_figure_has_its_median_and_its_spread(self) -> None:
        assert summarise([{"rate": 3.0}, {"rate": 9.0}, {"rate": 4.0}]) == {"rate": Spread(4.0, 3.0, 9.0)}

    def test_a_run_without_a_figure_does_not_count_for_it(self) -> None:
        summary = summarise([{"rate": 0.0}, {"rate": 2.0, "late": 5.0}])
        assert summary == {"rate": Spread(1.0, 0.0, 2.0), "late": Spread(5.0, 5.0, 5.0)}

    def test_the_table_has_a_line_for_each_figure(self) -> None:
        text = table({"W1": {"rate": Spread(1234.5, 0.0123, 9.0)}})
        assert text.splitlines()[2:] == ["| W1 | rate | 1,234 | 0.0123–9 |"]

    @pytest.mark.parametrize(("value", "words"), [(0.01234, "0.0123"), (99.94, "99.9"), (51234.6, "51,235"), (0, "0")])
    def test_numbers_have_three_significant_digits_or_are_whole(self, value: float, words: str) -> None:
        assert format_number(value) == words


class TestWindow:
    async def test_it_counts_only_what_happens_inside(self) -> None:
        used = {"web": 5.0}
        counted = {"dynamodb_requests": 100.0, "transactions": 10.0, "transaction_seconds": 1.0}
        async with measure_window(lambda: dict(used), lambda: dict(counted)) as window:
            used["web"] += 2.0
            counted |= {"dynamodb_requests": 150.0, "transactions": 30.0, "transaction_seconds": 1.5}
        figures = window.figures(100)
        assert figures["cpu_ms_web"] == pytest.approx(20)
        assert figures["dynamodb_requests_per_message"] == pytest.approx(0.5)
        assert figures["transaction_ms"] == pytest.approx(25)
        assert window.covers((window.started + window.ended) / 2)
        assert not window.covers(window.ended)

    async def test_it_gives_mean_latencies_and_run_queue_waits(self) -> None:
        counted = {"committed_messages": 5.0, "commits": 5.0, "publish_seconds": 1.0, "publishes": 10.0}
        waited = {"web": 3.0}
        async with measure_window(dict, lambda: dict(counted), run_queue_wait=lambda: dict(waited)) as window:
            counted |= {"committed_messages": 65.0, "commits": 10.0, "publish_seconds": 1.1, "publishes": 60.0}
            waited["web"] += 1.0
        figures = window.figures(60)
        assert figures["messages_per_transaction"] == pytest.approx(12)
        assert figures["kafka_ms"] == pytest.approx(2)
        assert figures["queued_share_web"] == pytest.approx(1.0 / window.seconds)
        assert "answer_ms" not in figures  # no message was sent

    def test_a_share_is_of_one_core(self) -> None:
        window = Window(10.0, 14.0, cpu={"web": 3.0, "client": 1.0}, machine={"busy": 6.0, "stolen": 0.4})
        assert window.figures(0) == pytest.approx(
            {
                "core_share_web": 0.75,
                "core_share_client": 0.25,
                "core_share_others": 0.5,
                "core_share_stolen": 0.1,
            }
        )
