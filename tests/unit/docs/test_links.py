"""What the documents refer to is there."""

import re
from pathlib import Path

import pytest

from config.management.commands.metrics import Command as MetricsCommand
from tests.unit.docs.pages import ROOT, named, pages

PAGES = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages()]
FOLDERS = (
    "accounts", "bench", "chats", "clients", "config", "delivery", "demo", "deploy", "dev", "docs", "engines",
    "foundation", "messaging", "staff", "tests", ".ci",
)  # fmt: skip


def anchors(page: Path) -> set[str]:
    """The fragments that lead to a heading, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
class TestEveryPage:
    def test_links_lead_to_files_and_headings(self, page: Path) -> None:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if "://" in target:
                continue
            path, _, fragment = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            assert file.exists(), target
            assert not fragment or fragment in anchors(file), target

    def test_paths_are_those_of_files(self, page: Path) -> None:
        for text in named(page.read_text()):
            path = text.partition("::")[0]
            if re.fullmatch(r"[\w./-]+", path) and path.startswith(tuple(f"{folder}/" for folder in FOLDERS)):
                assert (ROOT / path).exists(), text

    def test_metrics_are_those_of_the_code(self, page: Path) -> None:
        if page.name != "CHANGELOG.md":
            mentioned = set(re.findall(r"\bparley_[a-z_]+_(?:total|seconds|events|bytes)\b", page.read_text()))
            assert mentioned <= set(MetricsCommand().declared())

    def test_commands_are_those_of_the_makefile(self, page: Path) -> None:
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert set(re.findall(r"`(?:\$ )?make ([a-z-]+)", page.read_text())) <= targets


class TestIndexes:
    @pytest.mark.parametrize("folder", ["docs/adr", "docs/runbooks"])
    def test_every_page_is_in_the_index_of_its_folder(self, folder: str) -> None:
        index = (ROOT / folder / "README.md").read_text()
        listed = set(re.findall(r"\]\(([^)/]+\.md)\)", index))
        assert listed == {page.name for page in (ROOT / folder).glob("*.md")} - {"README.md"}

    def test_every_page_can_be_reached_from_the_readme(self) -> None:
        reached, pending = set[Path](), [ROOT / "README.md"]
        while pending:
            page = pending.pop()
            if page not in reached:
                reached.add(page)
                links = re.findall(r"\]\(([^)#\s]+\.md)", page.read_text())
                pending += [(page.parent / link).resolve() for link in links if "://" not in link]
        assert set(pages()) <= reached
