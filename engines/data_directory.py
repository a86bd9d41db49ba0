"""The directory a run keeps its data in: one run at a time, its secret, and a file that says where its engines are."""

import fcntl
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from engines.engine import Engine
from engines.errors import DataDirectoryInUse, DataDirectoryUnusable

LOCK_NAME = "dev.lock"
ENGINES_NAME = "engines.json"
SECRET_NAME = "secret"  # noqa: S105 - the name of a file


@contextmanager
def exclusive_directory(path: Path) -> Iterator[Path]:
    """Make the directory where it is missing, for our eyes only, and hold it, as an absolute path, for one run.

    The kernel gives the lock back however the holder ends. Raises `DataDirectoryUnusable` or `DataDirectoryInUse`.
    """
    directory = path.expanduser().absolute()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (directory / LOCK_NAME).open("a+")
    except OSError as error:
        raise DataDirectoryUnusable(
            f"The data directory {path} cannot be used ({error.strerror}): "
            "make it writable, or choose another one with --data-dir."
        ) from error
    with lock:
        _lock_or_refuse(lock, path)
        _make_secret(directory)
        _describe_no_engines(directory)
        try:
            yield directory
        finally:
            _describe_no_engines(directory)


def describe_engines(directory: Path, engines: Iterable[Engine]) -> None:
    """Write where the running engines are, for tests and for tools such as the AWS command line."""
    described = {
        engine.name: {
            "endpoint": engine.endpoint,
            "pid": engine.process.pid,
            "environment": engine.environment(),
        }
        for engine in engines
    }
    unfinished = directory / f"{ENGINES_NAME}.new"
    unfinished.write_text(json.dumps(described, indent=2) + "\n")
    unfinished.replace(directory / ENGINES_NAME)


def environment_of_running_engines(directory: Path) -> dict[str, str]:
    """The variables by which commands use the engines of the run under way; none where there is no run."""
    try:
        described = json.loads((directory / ENGINES_NAME).read_text())
    except (OSError, ValueError):
        return {}
    if not all(_is_running(engine["pid"]) for engine in described.values()):
        return {}
    return {name: value for engine in described.values() for name, value in engine["environment"].items()}


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _describe_no_engines(directory: Path) -> None:
    (directory / ENGINES_NAME).unlink(missing_ok=True)


def _make_secret(directory: Path) -> None:
    """A secret of this directory's own, so that logins survive a restart and no default is ever shared."""
    path = directory / SECRET_NAME
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(48))


def _lock_or_refuse(lock: TextIO, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        raise DataDirectoryInUse(
            f"Another `manage.py dev` (process {lock.read().strip()}) is running on {path}: "
            "stop it, or choose another directory with --data-dir."
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
