from xml.etree import ElementTree as ET

from bench.curves import curves
from bench.figures import Spread
from bench.growth import AXES
from bench.growth import table as growth_table
from bench.picture import picture
from bench.svg import GREEN, INK
from bench.targets import HEADLINES

NAMESPACE = "{http://www.w3.org/2000/svg}"


def words_of(svg: str) -> list[str]:
    """The texts of a picture. Fails unless it is well-formed XML."""
    return ["".join(text.itertext()) for text in ET.fromstring(svg).iter(f"{NAMESPACE}text")]


def one(value: float) -> Spread:
    return Spread(value, value, value)


class TestPicture:
    def test_it_shows_the_figure_its_target_and_its_peer(self) -> None:
        words = words_of(picture({"W1": {"delivered_per_s": Spread(2_345, 2_000, 2_600)}}, subtitle="today & here"))
        assert "2,345" in words
        assert "target 3,400" in words
        assert "Tinode + PostgreSQL 2,371" in words
        assert "today & here" in words

    def test_it_shows_only_what_was_measured(self) -> None:
        words = words_of(picture({"W4": {"kib_per_connection": one(28.4)}}, subtitle=""))
        assert "at most 30" in words
        assert not any(word.startswith(("W1", "W2", "CPU")) for word in words)

    def test_a_target_is_a_floor_or_a_ceiling(self) -> None:
        by_figure = {headline.figure: headline for headline in HEADLINES}
        assert by_figure["accepted_per_s"].is_met(1_000)
        assert not by_figure["accepted_per_s"].is_met(999)
        assert by_figure["kib_per_connection"].is_met(30)
        assert not by_figure["kib_per_connection"].is_met(31)
        assert not by_figure["all_current_s"].is_met(0)

    def test_what_no_run_may_have_is_judged_by_the_worst(self) -> None:
        def colour(errors: Spread) -> str | None:
            svg = ET.fromstring(picture({"W8": {"most_errors": errors}}, subtitle=""))
            return [text.get("fill") for text in svg.iter(f"{NAMESPACE}text")][-1]

        assert colour(Spread(0.0, 0.0, 0.0)) == GREEN
        assert colour(Spread(0.0, 0.0, 1.0)) == INK

    def test_every_headline_can_be_drawn(self) -> None:
        results: dict[str, dict[str, Spread]] = {}
        for number, headline in enumerate(HEADLINES):
            results.setdefault(headline.workload, {})[headline.figure] = one(1_000.0 + number)
        words = words_of(picture(results, subtitle=""))
        assert {f"{1_000 + number:,}" for number in range(len(HEADLINES))} <= set(words)

    def test_cpu_is_stacked_by_process_with_its_sum(self) -> None:
        words = words_of(picture({"W2": {"cpu_ms_web": one(1.25), "cpu_ms_client": one(0.5)}}, subtitle=""))
        assert {"1.25", "0.50", "1.75 ms"} <= set(words)

    def test_a_figure_of_zero_can_be_drawn(self) -> None:
        assert "0" in words_of(picture({"W5": {"durable_per_s": one(0.0)}}, subtitle=""))

    def test_it_notes_other_load_on_the_machine(self) -> None:
        figures = {"delivered_per_s": one(5.0), "core_share_others": one(1.5)}
        assert any("Noisy" in word and "1.5" in word for word in words_of(picture({"W1": figures}, subtitle="")))
        figures["core_share_others"] = one(0.05)
        assert not any("Noisy" in word for word in words_of(picture({"W1": figures}, subtitle="")))


class TestCurves:
    rows = ({"messages": 1_000.0, "rate": 50.5}, {"messages": 100_000.0, "rate": 49.5})

    def test_they_label_every_point(self) -> None:
        words = words_of(curves(self.rows, along="messages", panels={"rate": "Rate"}, subtitle="s"))
        assert {"Rate", "50.5", "49.5", "1,000", "100,000"} <= set(words)

    def test_the_table_has_a_column_for_each_size(self) -> None:
        lines = growth_table(self.rows, "messages", {"rate": "Rate"}).splitlines()
        assert lines[0] == "| with messages | 1,000 | 100,000 |"
        assert lines[2] == "| Rate | 50.5 | 49.5 |"

    def test_every_axis_names_its_curves(self) -> None:
        assert set(AXES) == {"messages", "members", "connections"}
        assert all(axis.panels for axis in AXES.values())
