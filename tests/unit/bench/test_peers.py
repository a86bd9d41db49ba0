from pathlib import Path

import pytest

from bench.peers.packages import PeerMissing, find_packages
from bench.peers.turns import CLIENT, SERVERS, Pair, table

LIBRARY = "usr/lib/x86_64-linux-gnu/ejabberd-23.01-1"
FILES = (
    f"{LIBRARY}/ebin/ejabberd.app",
    "usr/lib/erlang/lib/p1_pgsql-1.1.20/ebin/p1_pgsql.app",
    "usr/lib/postgresql/9.6/bin/initdb",
    "usr/lib/postgresql/15/bin/initdb",
    "usr/share/ejabberd/sql/pg.sql",
    "usr/bin/erl",
)


def install(root: Path, *files: str) -> Path:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


class TestPackages:
    def test_they_are_found_where_debian_puts_them(self, tmp_path: Path) -> None:
        packages = find_packages(install(tmp_path, *FILES))
        assert packages.ejabberd == tmp_path / LIBRARY
        assert packages.postgres == tmp_path / "usr/lib/postgresql/15/bin"
        assert packages.versions == "ejabberd 23.01-1, PostgreSQL 15"

    def test_who_has_none_is_told_what_to_install(self, tmp_path: Path) -> None:
        with pytest.raises(PeerMissing, match=r"install ejabberd erlang-p1-pgsql postgresql$"):
            find_packages(tmp_path)

    def test_who_has_some_is_told_of_the_rest(self, tmp_path: Path) -> None:
        with pytest.raises(PeerMissing, match=r"install postgresql$"):
            find_packages(install(tmp_path, *(name for name in FILES if "postgresql" not in name)))


class TestTable:
    def test_it_has_each_pair_and_the_medians(self) -> None:
        figures = ("messages_per_s", "page_p99_ms", SERVERS, CLIENT)
        peer, parley = dict.fromkeys(figures, 10.0), dict.fromkeys(figures, 20.0)
        pairs = [Pair(peer, parley), Pair(peer, peer), Pair(parley, parley)]
        assert table({"W3": pairs}).splitlines()[2] == (
            "| W3 | messages_per_s | 10, 10, 20 | 20, 10, 20 | 2, 1, 1 | 10, 20: 1 |"
        )
