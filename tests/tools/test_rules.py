"""Prometheus' own tool on the rules: they are valid, and they fire when they should."""

import subprocess
from pathlib import Path

import pytest

PROMETHEUS = Path(__file__).parents[2] / "deploy/prometheus"


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "recording.yaml", "alerts.yaml"),
        ("check", "config", "prometheus.yaml"),
        ("test", "rules", "tests.yaml"),
    ],
    ids=" ".join,
)
def test_promtool_is_content(arguments: tuple[str, ...]) -> None:
    result = subprocess.run(
        ["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True, timeout=100, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
