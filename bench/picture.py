"""The results of a run as one picture: each headline against its target and its best peer, then CPU per message."""

from collections.abc import Mapping

from bench.figures import Spread, format_number
from bench.svg import BLUE, GREEN, GREY, INK, ORANGE, PALE, PROCESSES, Drawing
from bench.targets import HEADLINES, Headline
from bench.window import NOISE_FIGURES, NOISE_LIMIT

Results = Mapping[str, Mapping[str, Spread]]

WIDTH, LEFT, RIGHT = 880, 250, 740
ROW, BAR = 62, 18
STACKED = ("W1", "W2")
MIN_LABEL_WIDTH = 34


def picture(results: Results, *, subtitle: str) -> str:
    """Draw the headlines that the results contain. A green number meets its target."""
    drawing = Drawing(WIDTH, "Parley benchmark")
    drawing.text(24, 34, "Parley: measured", size=18, bold=True)
    drawing.text(24, 54, subtitle, size=12, colour=GREY)
    _legend(drawing, 54)
    y = 78.0
    for headline in HEADLINES:
        spread = results.get(headline.workload, {}).get(headline.figure)
        if spread is not None:
            _bar(drawing, y, headline, spread)
            y += ROW
    y = _stacks(drawing, y, results) + 12
    for note in _notes(results):
        drawing.text(24, y, note, size=11, colour=GREY)
        y += 16
    drawing.grow_to(y)
    return str(drawing)


def _notes(results: Results) -> list[str]:
    """Caveats for the reader."""
    notes = []
    if any(headline.peer and headline.figure in results.get(headline.workload, {}) for headline in HEADLINES):
        notes.append("Peers: measured on the same kind of machine at another time; noise up to a third.")
    shares = [
        spread.most for figures in results.values() for name, spread in figures.items() if name.endswith(NOISE_FIGURES)
    ]
    if shares and max(shares) > NOISE_LIMIT:
        notes.append(f"Noisy: other processes used up to {format_number(max(shares))} of a core in these runs.")
    return notes


def _legend(drawing: Drawing, y: float) -> None:
    for x, colour, words in ((590, GREEN, "target"), (660, ORANGE, "best peer"), (746, INK, "least–most")):
        drawing.line((x, y - 10), (x, y + 2), colour, width=2)
        drawing.text(x + 7, y, words, size=11, colour=GREY)


def _bar(drawing: Drawing, y: float, headline: Headline, spread: Spread) -> None:
    marks = [value for value in (headline.target, headline.peer and headline.peer.value) if value]
    scale = (RIGHT - LEFT) / (max([spread.most, *marks]) * 1.12 or 1)
    top = y + 17
    drawing.text(24, top + 7, f"{headline.workload}  {headline.label}", size=13, bold=True)
    drawing.text(24, top + 23, headline.what, size=11, colour=GREY)
    drawing.rect(LEFT, top, RIGHT - LEFT, BAR, PALE)
    drawing.rect(LEFT, top, spread.median * scale, BAR, BLUE)
    middle = top + BAR / 2
    ends = [LEFT + value * scale for value in (spread.least, spread.most)]
    if ends[1] - ends[0] >= 1:
        drawing.line((ends[0], middle), (ends[1], middle), INK, width=1.5)
        for x in ends:
            drawing.line((x, middle - 4), (x, middle + 4), INK, width=1.5)
    if headline.target is not None:
        words = f"{'at most' if headline.at_most else 'target'} {format_number(headline.target)}"
        _mark(drawing, LEFT + headline.target * scale, top, words, GREEN, above=True)
    if headline.peer is not None:
        words = f"{headline.peer.name} {format_number(headline.peer.value)}"
        _mark(drawing, LEFT + headline.peer.value * scale, top, words, ORANGE, above=False)
    judged = spread.most if headline.target == 0 else spread.median
    colour = GREEN if headline.is_met(judged) else INK
    drawing.text(RIGHT + 12, top + 14, format_number(spread.median), size=15, bold=True, colour=colour)


def _mark(drawing: Drawing, x: float, top: float, words: str, colour: str, *, above: bool) -> None:
    drawing.line((x, top - 4), (x, top + BAR + 4), colour, width=2)
    anchor = "end" if x > LEFT + 0.7 * (RIGHT - LEFT) else "start"
    shift = -5 if anchor == "end" else 5
    drawing.text(x + shift, top - 5 if above else top + BAR + 13, words, size=11, colour=colour, anchor=anchor)


def _stacks(drawing: Drawing, y: float, results: Results) -> float:
    """Draw CPU per message by process, on one scale. Returns the y below it."""
    stacks = {
        name: {each: results[name][f"cpu_ms_{each}"].median for each in PROCESSES if f"cpu_ms_{each}" in results[name]}
        for name in STACKED
        if name in results
    }
    stacks = {name: costs for name, costs in stacks.items() if costs}
    if not stacks:
        return y
    y += 26
    drawing.text(24, y, "CPU per message, ms", size=15, bold=True)
    x = float(LEFT)
    for process, colour in PROCESSES.items():
        drawing.rect(x, y - 10, 11, 11, colour)
        drawing.text(x + 16, y, process, size=11, colour=GREY)
        x += 34 + 7 * len(process)
    scale = (RIGHT - LEFT) / max(sum(costs.values()) for costs in stacks.values())
    for name, costs in stacks.items():
        y += 18
        drawing.text(24, y + 15, name, size=13, bold=True)
        x = float(LEFT)
        for process, value in costs.items():
            drawing.rect(x, y, value * scale, 22, PROCESSES[process])
            if value * scale > MIN_LABEL_WIDTH:
                colour = INK if process in {"client", "kafka"} else "#ffffff"
                drawing.text(x + value * scale / 2, y + 15, f"{value:.2f}", size=11, colour=colour, anchor="middle")
            x += value * scale
        drawing.text(RIGHT + 12, y + 16, f"{sum(costs.values()):.2f} ms", size=13, bold=True)
        y += 22
    return y + 10
