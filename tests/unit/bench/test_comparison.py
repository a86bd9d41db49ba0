import json
import sys
from pathlib import Path

import pytest

from bench import comparison, results, revisions
from bench.comparison import CLIENT, SERVERS, RunPair, Side, run_in_turns, table
from bench.figures import Figures
from bench.revisions import find_interpreter, run_workload

RUN = """
import pathlib, sys
stem = pathlib.Path("bench/results") / f"2026-01-01T000000-{sys.argv[1]}"
stem.with_suffix(".svg").write_text("<svg/>")
stem.with_suffix(".json").write_text('{"runs": {"W4": [{"kib_per_connection": 28.5}]}}')
"""


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


class TestRevisions:
    def checkout(self, path: Path, main: str) -> Path:
        (path / "bench" / "results").mkdir(parents=True)
        (path / "bench" / "__main__.py").write_text(main)
        return path

    def test_it_reads_the_result_of_the_run_and_removes_its_files(self, tmp_path: Path) -> None:
        checkout = self.checkout(tmp_path, RUN)
        earlier = checkout / "bench" / "results" / "2025-01-01T000000-W4.json"
        earlier.write_text(json.dumps({}))
        assert run_workload(checkout, "W4") == {"kib_per_connection": 28.5}
        assert list(earlier.parent.iterdir()) == [earlier]

    def test_the_result_has_both_revisions_and_every_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        old, new = (self.checkout(tmp_path / name, RUN) for name in ("old", "new"))
        for module, name, value in (
            (comparison, "COOL_DOWN", 0),
            (results, "RESULTS", tmp_path / "kept"),
            (revisions, "PROJECT_ROOT", new),
            (revisions, "revision", lambda checkout: f"revision of {checkout.name}"),
        ):
            monkeypatch.setattr(module, name, value)
        revisions.compare(old, ["W4"], runs=2, report=lambda _line: None, output=lambda _line: None)
        (kept,) = (tmp_path / "kept").iterdir()
        assert kept.name.endswith("-turns-W4.json")
        document = json.loads(kept.read_text())
        assert document["settings"]["revisions"] == {"old": "revision of old", "new": "revision of new"}
        pairs = [{side: run["kib_per_connection"] for side, run in pair.items()} for pair in document["pairs"]["W4"]]
        assert pairs == [{"old": 28.5, "new": 28.5}] * 2

    def test_a_run_that_fails_ends_the_comparison(self, tmp_path: Path) -> None:
        with pytest.raises(SystemExit, match=r"W4 failed .* status 3"):
            run_workload(self.checkout(tmp_path, "raise SystemExit(3)"), "W4")

    def test_a_checkout_is_run_by_its_own_environment_if_it_has_one(self, tmp_path: Path) -> None:
        assert find_interpreter(tmp_path) == Path(sys.executable)
        own = tmp_path / ".venv" / "bin" / "python"
        own.parent.mkdir(parents=True)
        own.touch()
        assert find_interpreter(tmp_path) == own
