import pytest

from bench import comparison
from bench.comparison import CLIENT, SERVERS, RunPair, Side, run_in_turns, table
from bench.figures import Figures


class TestTable:
    def test_it_has_each_pair_and_the_medians(self) -> None:
        old, new = {"messages_per_s": 10.0, CLIENT: 4.0}, {"messages_per_s": 20.0, CLIENT: 4.0}
        pairs = [RunPair(old, new), RunPair(old, old), RunPair(new, new)]
        assert table({"W3": pairs}, "old", "new").splitlines() == [
            "| Workload | Figure | old | new | new / old | Medians |",
            "| --- | --- | ---: | ---: | ---: | ---: |",
            "| W3 | messages_per_s | 10, 10, 20 | 20, 10, 20 | 2, 1, 1 | 10, 20: 1 |",
            f"| W3 | {CLIENT} | 4, 4, 4 | 4, 4, 4 | 1, 1, 1 | 4, 4: 1 |",
        ]

    def test_a_ratio_to_zero_is_not_a_number(self) -> None:
        assert str(RunPair({"durable_per_s": 0.0}, {"durable_per_s": 5.0}).ratio("durable_per_s")) == "nan"


class TestTurns:
    def test_the_order_alternates_and_server_cpu_is_summed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(comparison, "COOL_DOWN", 0)
        order = list[str]()

        def side(name: str) -> Side:
            def run(workload: str) -> Figures:
                order.append(f"{name} {workload}")
                return {"cpu_ms_web": 1.0, "cpu_ms_fanout": 0.5, CLIENT: 9.0}

            return Side(name, run)

        pairs = run_in_turns(side("old"), side("new"), ["W1", "W2"], runs=2, report=lambda _line: None)
        assert order == [f"{name} {workload}" for workload in ("W1", "W2") for name in ("old", "new", "new", "old")]
        assert [pair.candidate[SERVERS] for pair in pairs["W2"]] == [1.5, 1.5]
