"""`config/` keeps settings, URLs, ASGI and wiring; what commands do is in the apps."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "config"
MAX_LINES, MAX_LINES_OF_WIRING, MAX_LINES_OF_A_COMMAND = 1500, 150, 40


def count_lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def modules(folder: str) -> list[Path]:
    return sorted((CONFIG / folder).glob("*.py"))


def test_the_project_package_stays_small() -> None:
    assert sum(map(count_lines, CONFIG.rglob("*.py"))) <= MAX_LINES


@pytest.mark.parametrize("module", modules("wiring"), ids=lambda path: path.stem)
def test_the_wiring_of_a_process_fits_on_a_few_screens(module: Path) -> None:
    assert count_lines(module) <= MAX_LINES_OF_WIRING


@pytest.mark.parametrize("module", modules("management/commands"), ids=lambda path: path.stem)
def test_a_command_is_an_entry_point(module: Path) -> None:
    assert count_lines(module) <= MAX_LINES_OF_A_COMMAND
