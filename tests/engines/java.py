"""Programs for the Java virtual machine: fetched by Maven once for each version of `pom.xml`, then run small.

`python -m tests.engines.java` fetches them ahead of the first run.
"""

import contextlib
import hashlib
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engines.errors import CannotRun, EngineMissing
from engines.processes import PROJECT_ROOT, LineSink

POM = Path(__file__).with_name("pom.xml")
KAFKA, DYNAMODB = "kafka", "dynamodb"
FETCH_WITHIN = 600
LOGS = PROJECT_ROOT / "build" / "real" / "logs"
# Quick to start and content with little: several of these share a laptop with everything else.
SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_numbers = itertools.count(1)


def provide_libraries(engine: str) -> Path:
    """The directory of an engine's libraries, fetched first where it is missing. Raises `EngineMissing`."""
    version = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    directory = PROJECT_ROOT / "build" / "real" / version / engine
    if not directory.exists():
        _fetch(engine, directory)
    return directory


def java_command(libraries: Path, main: str, *arguments: str, options: Mapping[str, Any] | None = None) -> list[str]:
    """How to run a main class. Raises `EngineMissing`."""
    properties = [f"-D{name}={value}" for name, value in (options or {}).items()]
    return [_require_program("java"), *SMALL, *properties, "-cp", f"{libraries}/*", main, *arguments]


def file_log(name: str, also: LineSink) -> LineSink:
    """A sink that keeps every line in a file of its own under `LOGS`, where the end of a failed run points."""
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / f"{os.getpid()}-{next(_numbers):03d}-{name}.log"
    path.write_text("")

    def write(line: str) -> None:
        # Another run may have begun and removed the files; an engine whose output nobody reads would stand still.
        with contextlib.suppress(FileNotFoundError), path.open("a") as file:
            file.write(f"{line}\n")
        also(line)

    return write


def forget_logs() -> None:
    shutil.rmtree(LOGS, ignore_errors=True)


def run_to_end(command: Sequence[str]) -> None:
    """Run a program that ends by itself. Raises `CannotRun` with its last words."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_WITHIN)
    if result.returncode != 0:
        words = [line for line in (result.stdout + result.stderr).splitlines() if line.strip()]
        raise CannotRun(f"`{Path(command[0]).name}` failed: {words[0] if words else 'it said nothing'}")


def _fetch(engine: str, directory: Path) -> None:
    _require_program("java")
    unfinished = directory.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    maven = [_require_program("mvn"), "--quiet", "--batch-mode", "--file", str(POM), f"--activate-profiles={engine}"]
    run_to_end([*maven, "dependency:copy-dependencies", f"-DoutputDirectory={unfinished}"])
    unfinished.rename(directory)


def _require_program(name: str) -> str:
    if path := shutil.which(name):
        return path
    raise EngineMissing(
        f"`{name}` was not found: the real engines need Java 17 or newer and Maven on PATH (`make test` needs neither)."
    )


def main() -> None:
    try:
        for engine in (KAFKA, DYNAMODB):
            provide_libraries(engine)
        _require_program("java")
    except CannotRun as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
