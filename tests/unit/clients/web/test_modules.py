"""Runs the web client's node tests, with the node of the virtual environment or of the machine."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

WEB = Path(__file__).resolve().parents[4] / "clients" / "web"
MODULES = sorted(WEB.glob("static/**/*.js"))
PROTOCOL = [WEB / "static" / "parley.js", *sorted(WEB.glob("static/protocol/*.js"))]


@pytest.fixture
def node() -> str:
    program = shutil.which("node", path=Path(sys.executable).parent) or shutil.which("node")
    assert program is not None, "node is missing: pip install -r requirements-dev.txt brings it"
    return program


class TestModules:
    def test_the_node_tests_pass(self, node: str) -> None:
        files = sorted(map(str, WEB.glob("tests/*.test.mjs")))
        result = subprocess.run([node, "--test", *files], capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 0, result.stdout
        passed = re.search(r"^(?:#|ℹ) pass (\d+)$", result.stdout, re.MULTILINE)
        assert passed is not None
        assert int(passed[1]) >= 90

    @pytest.mark.parametrize("module", PROTOCOL, ids=lambda path: path.name)
    def test_the_protocol_imports_nothing_else_and_uses_no_dom(self, module: Path) -> None:
        code = module.read_text()
        names = re.findall(r"""^(?:import|export) .* from ["'](.+)["'];$""", code, re.MULTILINE)
        assert {(module.parent / name).resolve() for name in names} <= set(PROTOCOL)
        assert "import(" not in code
        assert not re.search(r"\b(document|window)\.", code)

    def test_the_page_preloads_every_module(self) -> None:
        page = (WEB / "static" / "index.html").read_text()
        loaded = set(re.findall(r"""(?:src|href)="/static/parley/(.+\.js)\"""", page))
        assert loaded == {str(module.relative_to(WEB / "static")) for module in MODULES}

    @pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
    def test_no_module_parses_text_as_markup(self, module: Path) -> None:
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", module.read_text())

    @pytest.mark.parametrize("file", [*MODULES, *WEB.glob("static/*.html"), *WEB.glob("static/*.css")], ids=str)
    def test_nothing_is_fetched_from_another_host(self, file: Path) -> None:
        found = re.findall(r"""(?:src|href|url\(|from|import)\s*[=(]?\s*["']?https?://[^\s"']+""", file.read_text())
        assert found == []
