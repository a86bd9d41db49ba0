"""Who the peer's servers run as: both refuse to be root, so that under root they are their packages' own users."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """A user of the system for whom root acts. Anybody else acts for himself."""

    name: str

    def command(self, command: Sequence[str]) -> tuple[str, ...]:
        """The same as this user, in the same process. It dies with its parent, which a change of user would undo."""
        if os.geteuid() != 0:
            return tuple(command)
        user = ("--reuid", self.name, "--regid", self.name, "--init-groups")
        return ("setpriv", *user, "--pdeathsig", "KILL", "--", *command)

    def directory(self, path: Path) -> Path:
        """Made, and this user's own."""
        path.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(path, self.name, self.name)
        return path
