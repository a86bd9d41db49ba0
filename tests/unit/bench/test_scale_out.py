"""What W8 says about several processes, and the order of a log."""

import pytest

from bench.kafka_order import KafkaOrder, count_out_of_order
from bench.targets import HEADLINES
from bench.workloads.scale_out import summarise
from foundation.kernel.clock import SystemClock
from foundation.kernel.events import Event


def figures(
    *, rate: float, p99: float, requests: float, cancelled: float = 0.0, errors: float = 0.0
) -> dict[str, float]:
    return {
        "group_accepted_per_s": rate,
        "mixed_durable_per_s": 600.0,
        **{f"{kind}_ack_p99_ms": p99 for kind in ("group", "mixed")},
        **{f"{kind}_dynamodb_requests_per_message": requests for kind in ("group", "mixed")},
        **{f"{kind}_cancelled_share": cancelled for kind in ("group", "mixed")},
        **{f"{kind}_cancelled_of_all_share": 2 * cancelled for kind in ("group", "mixed")},
        **{f"{kind}_errors": errors for kind in ("group", "mixed")},
        **{f"{kind}_kafka_out_of_order": 0.0 for kind in ("group", "mixed")},
    }


def test_the_worst_of_several_processes_is_set_against_one() -> None:
    summary = summarise(
        {
            1: figures(rate=1000, p99=20, requests=0.5, cancelled=0.9),
            2: figures(rate=950, p99=25, requests=0.5, cancelled=0.01),
            3: figures(rate=800, p99=50, requests=0.6, errors=2),
        }
    )
    assert summary["rate_ratio"] == pytest.approx(0.8)
    assert summary["p99_ratio"] == pytest.approx(2.5)
    assert summary["requests_ratio"] == pytest.approx(1.2)
    assert summary["most_cancelled_share"] == 0.01
    assert summary["most_cancelled_of_all_share"] == 0.02
    assert summary["most_errors"] == 2
    assert summary["most_kafka_out_of_order"] == 0
    assert summary["web_2_group_accepted_per_s"] == 950


def test_what_must_not_happen_is_judged() -> None:
    judged = {headline.figure: headline for headline in HEADLINES if headline.workload == "W8"}
    for figure, most in {"most_errors": 0, "most_kafka_out_of_order": 0, "most_cancelled_of_all_share": 0.01}.items():
        assert judged[figure].is_met(most)
        assert not judged[figure].is_met(most + 0.01)


@pytest.mark.parametrize(
    ("sequences", "count"), [([1, 2, 3], 0), ([1, 2, 1, 2, 3], 0), ([1, 3, 2], 1), ([3, 1, 2, 1], 2), ([], 0)]
)
def test_only_first_occurrences_must_be_in_order(sequences: list[int], count: int) -> None:
    assert count_out_of_order(sequences) == count


def test_each_chat_has_an_order_of_its_own() -> None:
    order = KafkaOrder()
    for chat_id, sequence in (("a", 2), ("b", 1), ("a", 3), ("b", 2), ("a", 1)):
        event = Event(
            "MessagePersisted", "evt_1", SystemClock().now(), chat_id, {"chat_id": chat_id, "sequence": sequence}
        )
        order.add(event.encode())
    assert order.out_of_order == 1
