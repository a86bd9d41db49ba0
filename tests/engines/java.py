"""Java programs: fetched by Maven once for each version of `pom.xml`, run with little memory.

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
FETCH_TIMEOUT = 600  # seconds
LOGS = PROJECT_ROOT / "build" / "real" / "logs"
# For a quick start in little memory.
JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_numbers = itertools.count(1)


def provide_libraries(engine: str) -> Path:
    """Return the directory of an engine's libraries; fetch them if they are missing. Raises `EngineMissing`."""
    version = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    directory = PROJECT_ROOT / "build" / "real" / version / engine
    if not directory.exists():
        _fetch(engine, directory)
    return directory


def java_command(libraries: Path, main: str, *arguments: str, options: Mapping[str, Any] | None = None) -> list[str]:
    """Return the command that runs a main class. Raises `EngineMissing`."""
    properties = [f"-D{name}={value}" for name, value in (options or {}).items()]
    return [_require_program("java"), *JVM_OPTIONS, *properties, "-cp", f"{libraries}/*", main, *arguments]


def file_log(name: str) -> LineSink:
    """Return a sink that writes to a new file under `LOGS`."""
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / f"{os.getpid()}-{next(_numbers):03d}-{name}.log"
    path.write_text("")

    def write(line: str) -> None:
        # Another run may have removed the file; the engine's output must be read all the same.
        with contextlib.suppress(FileNotFoundError), path.open("a") as file:
            file.write(f"{line}\n")

    return write


def remove_logs() -> None:
    shutil.rmtree(LOGS, ignore_errors=True)


def run_to_end(command: Sequence[str]) -> None:
    """Run a program to its end. Raises `CannotRun` with its first line of output."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_TIMEOUT)
    if result.returncode != 0:
        lines = [line for line in (result.stdout + result.stderr).splitlines() if line.strip()]
        raise CannotRun(f"`{Path(command[0]).name}` failed: {lines[0] if lines else 'no output'}")


def _fetch(engine: str, directory: Path) -> None:
    _require_program("java")
    temporary = directory.with_suffix(".new")
    shutil.rmtree(temporary, ignore_errors=True)
    maven = [_require_program("mvn"), "--quiet", "--batch-mode", "--file", str(POM), f"--activate-profiles={engine}"]
    run_to_end([*maven, "dependency:copy-dependencies", f"-DoutputDirectory={temporary}"])
    temporary.rename(directory)


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
