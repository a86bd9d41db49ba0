"""A minimal SVG writer: rectangles, lines, paths and text."""

from collections.abc import Sequence
from html import escape

INK, GREY, PALE, RULE = "#1f2933", "#66727f", "#eef1f4", "#c9d0d7"
BLUE, GREEN, ORANGE, RED = "#2f6fb3", "#1b8a5a", "#c8641b", "#c0392b"
PROCESSES = {
    "web": BLUE,
    "fanout": "#58a6d8",
    "dynamodb": "#7a5fb0",
    "kafka": "#d99a2b",
    "redis": RED,
    "client": "#a9b4bf",
}


class Drawing:
    """Collects shapes in order; `str()` gives the file."""

    def __init__(self, width: int, title: str) -> None:
        self.width = width
        self._title = title
        self._height = 0.0
        self._shapes: list[str] = []

    def grow_to(self, y: float) -> None:
        self._height = max(self._height, y)

    def rect(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        self._shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" fill="{fill}"/>'
        )

    def line(self, start: tuple[float, float], end: tuple[float, float], colour: str, *, width: float = 1.0) -> None:
        (x1, y1), (x2, y2) = start, end
        self._shapes.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'
        )

    def path(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._shapes.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>')
        self._shapes += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: int = 12,
        colour: str = INK,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self._shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"{weight}>'
            f"{escape(words)}</text>"
        )

    def __str__(self) -> str:
        size = f'width="{self.width}" height="{self._height:.0f}" viewBox="0 0 {self.width} {self._height:.0f}"'
        family = "-apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
        lines = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{family}" role="img">',
            f"<title>{escape(self._title)}</title>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *self._shapes,
            "</svg>",
        )
        return "\n".join(lines) + "\n"
