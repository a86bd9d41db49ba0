"""Reading Markdown: sections, tables, and what stands in backticks."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def pages() -> list[Path]:
    """Every document of the repository."""
    folders = (
        ROOT,
        ROOT / "docs",
        ROOT / "docs/adr",
        ROOT / "docs/runbooks",
        ROOT / "clients",
        ROOT / "clients/python",
    )
    return sorted(path for folder in folders for path in folder.glob("*.md"))


def section(page: str, heading: str) -> str:
    """The text below a heading, up to the next one of its level or a higher one."""
    lines = (ROOT / page).read_text().splitlines()
    start = lines.index(heading)
    level = heading.partition(" ")[0]
    end = next((at for at in range(start + 1, len(lines)) if re.match(rf"#{{2,{len(level)}}} ", lines[at])), len(lines))
    return "\n".join(lines[start + 1 : end])


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a text: rows of cells, without the heads."""
    found = re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE)
    return [[_cells(line) for line in table.splitlines()[2:]] for table in found]


def named(text: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", text)


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]
