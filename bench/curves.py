"""Growth as curves: one panel per figure, over the size on a logarithmic axis."""

import math
from collections.abc import Mapping, Sequence

from bench.figures import format_number
from bench.svg import BLUE, GREY, PALE, RULE, Drawing

Rows = Sequence[Mapping[str, float]]

COLUMNS, PANEL, HEIGHT, GAP = 2, 400, 190, 24
TOP, SIDE, PLOT = 84, 24, 108


def curves(rows: Rows, *, along: str, panels: Mapping[str, str], subtitle: str) -> str:
    """`along`: the name of the size in each row; `panels`: the figures to plot, with their labels."""
    drawing = Drawing(2 * SIDE + COLUMNS * PANEL + (COLUMNS - 1) * GAP, f"Parley as {along} grow")
    drawing.text(SIDE, 34, f"Parley: how cost grows with {along}", size=18, bold=True)
    drawing.text(SIDE, 54, subtitle, size=12, colour=GREY)
    known = [(figure, label) for figure, label in panels.items() if all(figure in row for row in rows)]
    for place, (figure, label) in enumerate(known):
        x = SIDE + place % COLUMNS * (PANEL + GAP)
        y = TOP + place // COLUMNS * HEIGHT
        _panel(drawing, x, y, label, [(row[along], row[figure]) for row in rows])
        drawing.grow_to(y + HEIGHT)
    return str(drawing)


def _panel(drawing: Drawing, x: float, y: float, label: str, values: Sequence[tuple[float, float]]) -> None:
    drawing.text(x, y, label, size=13, bold=True)
    floor, left, right = y + 26 + PLOT, x + 30, x + PANEL - 40
    drawing.rect(x, y + 14, PANEL, PLOT + 12, PALE)
    drawing.line((x, floor), (x + PANEL, floor), RULE)
    most = max(value for _, value in values) * 1.25 or 1
    first, last = (math.log10(values[end][0]) for end in (0, -1))
    points = [
        (left + (right - left) * (math.log10(size) - first) / ((last - first) or 1), floor - PLOT * value / most)
        for size, value in values
    ]
    drawing.path(points, BLUE)
    for (px, py), (size, value) in zip(points, values, strict=True):
        drawing.text(px, py - 8, format_number(value), size=12, anchor="middle", bold=True)
        drawing.text(px, floor + 15, format_number(size), size=11, colour=GREY, anchor="middle")
