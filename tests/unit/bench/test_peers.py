from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.peers.manners import Manner, configuration
from bench.peers.packages import PeerMissing, find_packages
from bench.peers.pairs import require_acknowledged
from bench.peers.turns import CLIENT, SERVERS, Pair, table
from bench.timeline import WrongDelivery

LIBRARY = "usr/lib/x86_64-linux-gnu/ejabberd-23.01-1"
FILES = (
    f"{LIBRARY}/ebin/ejabberd.app",
    "usr/lib/erlang/lib/p1_pgsql-1.1.20/ebin/p1_pgsql.app",
    "usr/lib/postgresql/9.6/bin/initdb",
    "usr/lib/postgresql/15/bin/initdb",
    "usr/share/ejabberd/ejabberd.yml.example",
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


SHIPPED = """
loglevel: info
define_macro: {TLS: [no_sslv3]}
certfiles: [/etc/ejabberd/ejabberd.pem]
c2s_protocol_options: TLS
listen: [{port: 5222, module: ejabberd_c2s, shaper: c2s_shaper}, {port: 1883, module: mod_mqtt}]
auth_password_format: scram
shaper_rules: {max_user_offline_messages: {5000: admin, 100: all}}
modules:
  mod_privacy: {}
  mod_muc: {access_create: muc_create, default_room_options: {mam: true}}
"""


def set_up(manner: Manner) -> dict[str, Any]:
    text = configuration(manner, SHIPPED, listener={"ip": "127.0.0.1", "port": 7}, database={"sql_type": "pgsql"})
    return dict(yaml.safe_load(text))


class TestManners:
    @pytest.mark.parametrize("manner", Manner)
    def test_each_listens_once_without_limits_and_archives_everything(self, manner: Manner) -> None:
        whole = set_up(manner)
        listener = {"module": "ejabberd_c2s", "access": "all", "shaper": "none", "backlog": 1024}
        assert whole["listen"] == [{**listener, "ip": "127.0.0.1", "port": 7}]
        assert (whole["sql_type"], whole["auth_password_format"]) == ("pgsql", "plain")
        assert whole["modules"]["mod_mam"] == {"db_type": "sql", "default": "always"}
        assert whole["modules"]["mod_muc"]["default_room_options"] == {"persistent": True, "mam": True}

    def test_a_bare_one_has_nothing_else(self) -> None:
        assert set_up(Manner.BARE)["modules"].keys() == {"mod_mam", "mod_muc"}

    @pytest.mark.parametrize("manner", [Manner.SHIPPED, Manner.ACKNOWLEDGING])
    def test_the_others_have_what_the_package_has_but_tls(self, manner: Manner) -> None:
        whole = set_up(manner)
        assert whole["loglevel"] == "info"
        assert whole["shaper_rules"] == {"max_user_offline_messages": {5000: "admin", 100: "all"}}
        assert whole["modules"].keys() == {"mod_privacy", "mod_mam", "mod_muc"}
        assert whole["modules"]["mod_muc"]["access_create"] == "muc_create"
        assert not {"define_macro", "certfiles", "c2s_protocol_options"} & whole.keys()

    def test_senders_ask_in_one_of_them_only(self) -> None:
        assert [manner for manner in Manner if manner.acknowledges] == [Manner.ACKNOWLEDGING]


class TestAcknowledged:
    def test_each_sender_was_told_of_each_message(self) -> None:
        require_acknowledged([answered(1, 2, 3), answered(1), []], [3, 1, 0])

    @pytest.mark.parametrize("counts", [(1, 2), (1, 3, 3), (2, 1, 3), (1, 2, 3, 4)])
    def test_a_sender_who_was_not_makes_the_run_worthless(self, counts: tuple[int, ...]) -> None:
        with pytest.raises(WrongDelivery, match="sender 1 sent 3 messages"):
            require_acknowledged([answered(1), answered(*counts)], [1, 3])


def answered(*counts: int) -> list[bytes]:
    return [f"<a xmlns='urn:xmpp:sm:3' h='{count}'/>".encode() for count in counts]


class TestTable:
    def test_it_has_each_pair_and_the_medians(self) -> None:
        figures = ("messages_per_s", "page_p99_ms", SERVERS, CLIENT)
        peer, parley = dict.fromkeys(figures, 10.0), dict.fromkeys(figures, 20.0)
        pairs = [Pair(peer, parley), Pair(peer, peer), Pair(parley, parley)]
        assert table({"W3": pairs}).splitlines()[2] == (
            "| W3 | messages_per_s | 10, 10, 20 | 20, 10, 20 | 2, 1, 1 | 10, 20: 1 |"
        )
