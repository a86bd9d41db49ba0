"""The system users of the peer's servers, which refuse to run as root."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SystemUser:
    """The user that root runs a server as. Without root, the server runs as the current user."""

    name: str

    def command(self, command: Sequence[str]) -> tuple[str, ...]:
        """Wrap a command to run as this user. A change of user clears the parent-death signal, so it is set again."""
        if os.geteuid() != 0:
            return tuple(command)
        user = ("--reuid", self.name, "--regid", self.name, "--init-groups")
        return ("setpriv", *user, "--pdeathsig", "KILL", "--", *command)

    def directory(self, path: Path) -> Path:
        """Create a directory owned by this user."""
        path.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(path, self.name, self.name)
        return path
