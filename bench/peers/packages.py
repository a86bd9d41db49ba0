"""Finds the peer's programs, as Debian's packages install them."""

import re
from dataclasses import dataclass
from pathlib import Path

LIBRARIES = ("usr/lib/*", "usr/lib/erlang/lib")


class PeerMissing(Exception):
    """Raised if a program of the peer is not installed. Names the packages to install."""


@dataclass(frozen=True, slots=True)
class Packages:
    """`ejabberd`: its library directory; `postgres`: the directory of its programs."""

    ejabberd: Path
    configuration: Path
    schema: Path
    erl: Path
    postgres: Path

    @property
    def versions(self) -> str:
        release = self.ejabberd.name.partition("-")[2]
        return f"ejabberd {release}, PostgreSQL {self.postgres.parent.name}"


def find_packages(root: Path = Path("/")) -> Packages:
    """Raises `PeerMissing`."""
    ejabberd, driver, postgres = _library(root, "ejabberd"), _library(root, "p1_pgsql"), _postgres(root)
    configuration, schema = (root / "usr/share/ejabberd" / name for name in ("ejabberd.yml.example", "sql/pg.sql"))
    erl = root / "usr/bin/erl"
    found = {
        "ejabberd": ejabberd is not None and all(path.exists() for path in (configuration, schema, erl)),
        "erlang-p1-pgsql": driver is not None,
        "postgresql": postgres is not None,
    }
    if ejabberd is None or postgres is None or not all(found.values()):
        missing = " ".join(name for name, is_there in found.items() if not is_there)
        raise PeerMissing(f"the peer is ejabberd on PostgreSQL, from Debian's packages: apt-get install {missing}")
    return Packages(ejabberd, configuration, schema, erl, postgres)


def _library(root: Path, name: str) -> Path | None:
    found = (path for place in LIBRARIES for path in root.glob(f"{place}/{name}-*/ebin/{name}.app"))
    return max((path.parents[1] for path in found), default=None)


def _postgres(root: Path) -> Path | None:
    """The newest version with `initdb`."""
    found = (path.parent for path in root.glob("usr/lib/postgresql/*/bin/initdb"))
    return max(found, key=lambda path: [int(part) for part in re.findall(r"\d+", path.parent.name)], default=None)
