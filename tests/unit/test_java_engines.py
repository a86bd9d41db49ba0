"""The real engines need Java and Maven, and say so in one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engines.errors import CannotRun, EngineMissing
from tests.engines import java


def test_without_java_fetching_ends_with_one_line(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.engines.java"],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr == (
        "`java` was not found: the real engines need Java 17 or newer and Maven on PATH (`make test` needs neither).\n"
    )


def test_without_maven_nothing_can_be_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "java").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "PROJECT_ROOT", tmp_path)
    with pytest.raises(EngineMissing, match="`mvn` was not found"):
        java.provide_libraries(java.KAFKA)


def test_what_maven_says_is_passed_on_and_nothing_half_fetched_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("java", "mvn"):
        (tmp_path / name).write_text("#!/bin/sh\necho no network\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(java, "PROJECT_ROOT", tmp_path)
    for _ in range(2):
        with pytest.raises(CannotRun, match="`mvn` failed: no network"):
            java.provide_libraries(java.KAFKA)
