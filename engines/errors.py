"""Why a run cannot start or continue. Each message is one sentence for the user, with a remedy where one is known."""

import signal


class CannotRun(Exception):
    """Base of every failure that ends a run with a sentence instead of a traceback."""


class PortUnusable(CannotRun):
    """Raised when another process listens on the requested port, or the system denies it."""


class DataDirectoryUnusable(CannotRun):
    """Raised when the data directory cannot be created or written to."""


class DataDirectoryInUse(CannotRun):
    """Raised when another run holds the lock of the data directory."""


class EngineMissing(CannotRun):
    """Raised when the program of an engine is not installed."""


class EngineNotConfigured(CannotRun):
    """Raised when a run on external engines has no address for one of them."""


class EngineFailed(CannotRun):
    """Raised when an engine exits, or does not answer in time, before it is ready."""


class ServiceFailed(CannotRun):
    """Raised when a service is not ready in time, or a preparation fails."""


class ChildExited(CannotRun):
    """Raised when a process that should run until the end of the run has exited. `exit` says which one, and how."""

    def __init__(self, name: str, status: int) -> None:
        """`status` is a `Popen.returncode`."""
        self.name = name
        self.exit = f"{name} {describe_exit(status)}"
        super().__init__(f"{self.exit}, so everything was stopped; see its log lines above.")


def describe_exit(status: int) -> str:
    """Describe a `Popen.returncode`."""
    if status >= 0:
        return f"ended with exit status {status}"
    return f"was killed by {signal.Signals(-status).name}"
