"""The data directory of a run: locked by one run at a time, with a file that says where its engines are."""

import fcntl
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from engines.engine import Engine
from engines.errors import DataDirectoryInUse, DataDirectoryUnusable

LOCK_NAME = "dev.lock"
ENGINES_NAME = "engines.json"
PRIVATE = 0o700
"""The mode bits that a directory or file may have."""


@contextmanager
def exclusive_directory(path: Path) -> Iterator[Path]:
    """Create the directory if it is missing, lock it and make it and its files private. Yields its absolute path.

    What this process and its children create in the block is private too. The kernel releases the lock when the process
    ends. Raises `DataDirectoryUnusable` or `DataDirectoryInUse`.
    """
    directory = path.expanduser().absolute()
    with _private_umask():
        try:
            directory.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            _make_private(directory, path)
            lock = (directory / LOCK_NAME).open("a+")
        except OSError as error:
            raise DataDirectoryUnusable(f"The data directory {path} cannot be used: {error.strerror}.") from error
        with lock:
            _acquire(lock, path)
            _remove_description(directory)
            try:
                yield directory
            finally:
                _remove_description(directory)


@contextmanager
def _private_umask() -> Iterator[None]:
    """Give the files of this process and of its children no mode bits for others."""
    former = os.umask(~PRIVATE & 0o777)
    try:
        yield
    finally:
        os.umask(former)


def _make_private(directory: Path, path: Path) -> None:
    """Take the rights of others to the directory and to what it holds: a database, a secret, login codes.

    A sticky directory such as `/tmp` is shared on purpose and is refused. Raises `OSError`.
    """
    if directory.stat().st_mode & stat.S_ISVTX:
        raise DataDirectoryUnusable(f"The data directory {path} is shared with other users.")
    for each in (directory, *directory.iterdir()):
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(each.lstat().st_mode)
            if mode & ~PRIVATE and not each.is_symlink():
                each.chmod(mode & PRIVATE)


def describe_engines(directory: Path, engines: Iterable[Engine]) -> None:
    """Write `engines.json`: where the running engines are."""
    described = {
        engine.name: {
            "endpoint": engine.endpoint,
            "pid": engine.process.pid,
            "environment": engine.environment(),
        }
        for engine in engines
    }
    temporary = directory / f"{ENGINES_NAME}.new"
    temporary.write_text(json.dumps(described, indent=2) + "\n")
    temporary.replace(directory / ENGINES_NAME)


def environment_of_running_engines(directory: Path) -> dict[str, str]:
    """Return the variables that point a program at the engines of the current run; empty without a run."""
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


def _remove_description(directory: Path) -> None:
    (directory / ENGINES_NAME).unlink(missing_ok=True)


def _acquire(lock: TextIO, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        raise DataDirectoryInUse(
            f"The data directory {path} is in use by another run (process {lock.read().strip()})."
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
