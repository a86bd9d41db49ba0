"""Simulates the homes of chats in many `web` processes: balance, moves, and messages that are handed over.

  python -m bench.homes        writes docs/homes.svg, which docs/scale.md shows

Homes are found by the function that the processes use. Chats are busy unevenly: the n-th sends 1/n of the first.
"""

import random
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import format_number
from bench.svg import BLUE, GREEN, GREY, ORANGE, PALE, RULE, Drawing
from engines.processes import PROJECT_ROOT
from foundation.kernel.ids import ChatId
from messaging.services.homes import Homes

PICTURE = PROJECT_ROOT / "docs" / "homes.svg"
PROCESSES, CHATS, MESSAGES = 100, 20_000, 50_000
COUNTS = (1, 2, 3, 5, 10, 30, 100)
WIDTH, SIDE, PANEL, GAP, HEIGHT, PLOT = 872, 24, 400, 24, 210, 120
"""Of the picture, in pixels."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """`chats` and `load`: of each process, as multiples of the mean. The rest are shares of all chats or messages."""

    chats: Sequence[float]
    load: Sequence[float]
    moved_by_leaving: float
    moved_by_joining: float
    moved_elsewhere: int
    """Chats that moved although neither their old nor their new home came or went."""
    handed: Mapping[int, float]
    """By the number of processes."""


def simulate(*, processes: int = PROCESSES, chats: int = CHATS, counts: Sequence[int] = COUNTS) -> Simulation:
    rng = random.Random(0)  # noqa: S311 - not a secret
    names = [f"gw-{rng.getrandbits(48):012x}:1" for _ in range(processes + 1)]
    chat_ids = [ChatId(f"chat_{number:026d}") for number in range(chats)]
    weights = [1 / (number + 1) for number in range(chats)]
    rng.shuffle(weights)
    before = find_homes(names[:processes], chat_ids)
    left = find_homes(names[1:processes], chat_ids)
    joined = find_homes(names, chat_ids)
    leaving = [chat for chat in chat_ids if left[chat] != before[chat]]
    joining = [chat for chat in chat_ids if joined[chat] != before[chat]]
    elsewhere = sum(before[chat] != names[0] for chat in leaving) + sum(joined[chat] != names[-1] for chat in joining)
    return Simulation(
        chats=_relative(Counter(before.values()), names[:processes]),
        load=_relative(_sum_weights(before, weights), names[:processes]),
        moved_by_leaving=len(leaving) / chats,
        moved_by_joining=len(joining) / chats,
        moved_elsewhere=elsewhere,
        handed={count: handed_share(find_homes(names[:count], chat_ids), weights, rng) for count in counts},
    )


def find_homes(names: Sequence[str], chat_ids: Sequence[ChatId]) -> dict[ChatId, str]:
    """The home of each chat when these processes are in the list."""
    homes = Homes(monotonic=lambda: 0.0)
    homes.update(names[0], names, at=0.0)
    return {chat_id: homes.find_home(chat_id) or "" for chat_id in chat_ids}


def handed_share(homes: Mapping[ChatId, str], weights: Sequence[float], rng: random.Random) -> float:
    """Share of the messages that arrive at another process than their chat's home: a sender may sit at any."""
    names = sorted(set(homes.values()))
    sent = rng.choices(list(homes.values()), weights, k=MESSAGES)
    return sum(rng.choice(names) != home for home in sent) / MESSAGES


def _sum_weights(homes: Mapping[ChatId, str], weights: Sequence[float]) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for name, weight in zip(homes.values(), weights, strict=True):
        found[name] = found.get(name, 0.0) + weight
    return found


def _relative(values: Mapping[str, float], names: Sequence[str]) -> list[float]:
    each = [values.get(name, 0.0) for name in names]
    mean = statistics.fmean(each)
    return sorted((value / mean for value in each), reverse=True)


def picture(result: Simulation, *, processes: int = PROCESSES, chats: int = CHATS) -> str:
    drawing = Drawing(WIDTH, "Homes of chats")
    drawing.text(SIDE, 34, f"Homes of {chats:,} chats in {processes} web processes", size=18, bold=True)
    drawing.text(SIDE, 54, "simulated with the function that the processes use", size=12, colour=GREY)
    right = SIDE + PANEL + GAP
    _bars(drawing, (SIDE, 84), "Chats of each process, of the mean", result.chats)
    _bars(drawing, (right, 84), "Messages of each process, of the mean (the n-th chat sends 1/n)", result.load)
    moves = {
        "one leaves": result.moved_by_leaving,
        "one joins": result.moved_by_joining,
        "moved needlessly": result.moved_elsewhere / chats,
    }
    _columns(drawing, (SIDE, 84 + HEIGHT), "Share of the chats that move", moves, ORANGE)
    handed = {str(count): share for count, share in result.handed.items()}
    _columns(drawing, (right, 84 + HEIGHT), "Share of messages handed to a home, by processes", handed, BLUE)
    drawing.grow_to(84 + 2 * HEIGHT)
    return str(drawing)


def _panel(drawing: Drawing, at: tuple[float, float], title: str) -> float:
    """Returns the y of the floor."""
    x, y = at
    drawing.text(x, y, title, size=13, bold=True)
    drawing.rect(x, y + 12, PANEL, PLOT + 24, PALE)
    floor = y + 12 + PLOT + 24
    drawing.line((x, floor), (x + PANEL, floor), RULE)
    return floor


def _bars(drawing: Drawing, at: tuple[float, float], title: str, values: Sequence[float]) -> None:
    floor, (x, _) = _panel(drawing, at, title), at
    scale, width = PLOT / max(values), PANEL / len(values)
    for number, value in enumerate(values):
        drawing.rect(x + number * width, floor - value * scale, width * 0.8, value * scale, BLUE)
    drawing.line((x, floor - scale), (x + PANEL, floor - scale), GREEN, width=1.5)
    words = f"most {values[0]:.2f}, least {values[-1]:.2f}"
    drawing.text(x + PANEL - 6, floor - PLOT - 8, words, size=11, colour=GREY, anchor="end")


def _columns(drawing: Drawing, at: tuple[float, float], title: str, values: Mapping[str, float], colour: str) -> None:
    floor, (x, _) = _panel(drawing, at, title), at
    scale, width = PLOT / (max(values.values()) or 1), PANEL / len(values)
    for number, (name, value) in enumerate(values.items()):
        middle = x + (number + 0.5) * width
        drawing.rect(middle - width * 0.3, floor - value * scale, width * 0.6, value * scale, colour)
        words = f"{format_number(value * 100)} %"
        drawing.text(middle, floor - value * scale - 5, words, size=11, anchor="middle", bold=True)
        drawing.text(middle, floor + 15, name, size=11, colour=GREY, anchor="middle")


def main(path: Path = PICTURE) -> None:
    path.write_text(picture(simulate()))


if __name__ == "__main__":
    main()
