"""The result files of a run: JSON with the machine, revision and settings, and a picture."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from bench.deployment import Report
from bench.launch import SETTINGS
from engines.processes import PROJECT_ROOT

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Record:
    """`settings`: the options of the command."""

    engines: str
    settings: Mapping[str, Any]
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def subtitle(self) -> str:
        return (
            f"{self.at:%Y-%m-%d}, {os.cpu_count()} cores ({platform.machine()}), {interpreter()}, "
            f"{self.engines} engines, revision {revision()}"
        )

    def keep(self, name: str, document: Mapping[str, Any], picture: str | None, *, report: Report) -> None:
        """Write the files, named after the time of the run."""
        RESULTS.mkdir(exist_ok=True)
        stem = f"{self.at:%Y-%m-%dT%H%M%S}-{name}"
        heading = {
            "at": self.at.isoformat(),
            **machine(),
            "revision": revision(),
            "engines": self.engines,
            "settings": {**self.settings, **SETTINGS},
        }
        files = {"json": json.dumps({**heading, **document}, indent=2) + "\n", "svg": picture}
        for suffix, text in files.items():
            if text is not None:
                (RESULTS / f"{stem}.{suffix}").write_text(text)
                report(f"kept in bench/results/{stem}.{suffix}")


def machine() -> dict[str, Any]:
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": interpreter(),
    }


def interpreter() -> str:
    """Version and build: two builds of one version may differ by a fifth in speed."""
    _, date = platform.python_build()
    return f"Python {platform.python_version()} (built {' '.join(date.split()[:3])})"


def revision(checkout: Path = PROJECT_ROOT) -> str:
    """The commit of a checkout, with a plus for a modified tree; unknown outside a repository."""
    command = ("git", "describe", "--always", "--dirty=+", "--exclude=*")
    answer = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)  # noqa: S603
    return answer.stdout.strip() or "unknown"


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
