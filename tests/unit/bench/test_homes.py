"""The simulation of homes."""

import pytest

from bench.homes import Simulation, picture, simulate

PROCESSES, CHATS = 20, 4_000


@pytest.fixture(scope="module")
def result() -> Simulation:
    return simulate(processes=PROCESSES, chats=CHATS, counts=(1, 2, 10))


def test_chats_are_spread_evenly(result: Simulation) -> None:
    assert len(result.chats) == PROCESSES
    assert sum(result.chats) == pytest.approx(PROCESSES)
    assert 0.7 < result.chats[-1] <= result.chats[0] < 1.3


def test_a_process_that_comes_or_goes_moves_its_own_chats_only(result: Simulation) -> None:
    assert result.moved_by_leaving == pytest.approx(1 / PROCESSES, rel=0.3)
    assert result.moved_by_joining == pytest.approx(1 / (PROCESSES + 1), rel=0.3)
    assert result.moved_elsewhere == 0


def test_all_messages_but_those_that_arrive_at_home_are_handed_over(result: Simulation) -> None:
    assert result.handed == {1: 0.0, 2: pytest.approx(0.5, abs=0.02), 10: pytest.approx(0.9, abs=0.02)}


def test_the_picture_shows_every_process(result: Simulation) -> None:
    drawn = picture(result, processes=PROCESSES, chats=CHATS)
    assert drawn.count("<rect") >= 2 * PROCESSES
    assert f"Homes of {CHATS:,} chats in {PROCESSES} web processes" in drawn
