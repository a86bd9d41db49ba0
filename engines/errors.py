"""Why a run cannot start or go on. Each message is one sentence for a person, with what to do where we know it."""

import signal


class CannotRun(Exception):
    """Base of every failure that ends `manage.py dev` with a sentence instead of a traceback."""


class PortUnusable(CannotRun):
    """Raised when another process listens on the port asked for, or the system refuses it."""


class DataDirectoryUnusable(CannotRun):
    """Raised when the data directory cannot be made or written to."""


class DataDirectoryInUse(CannotRun):
    """Raised when another `manage.py dev` works on the same data directory."""


class EngineMissing(CannotRun):
    """Raised when an engine's program is nowhere to be found."""


class EngineUnnamed(CannotRun):
    """Raised when a run on external engines is not told where one of them is."""


class EngineFailed(CannotRun):
    """Raised when an engine ends, or stays silent, before it has answered once."""


class ServiceFailed(CannotRun):
    """Raised when one of our own processes is not ready in time, or a preparing command fails."""


class ChildDied(CannotRun):
    """Raised when a process that should run for ever has ended."""


def describe_exit(status: int) -> str:
    """A `Popen.returncode` in words."""
    if status >= 0:
        return f"ended with exit status {status}"
    return f"was killed by {signal.Signals(-status).name}"
