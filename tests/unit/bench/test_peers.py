from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.peers.packages import PeerMissing, find_packages
from bench.peers.pairs import require_acknowledged
from bench.peers.profiles import Profile, configuration
from bench.timeline import InvalidRun

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

    def test_the_error_names_the_packages_to_install(self, tmp_path: Path) -> None:
        with pytest.raises(PeerMissing, match=r"install ejabberd erlang-p1-pgsql postgresql$"):
            find_packages(tmp_path)

    def test_the_error_names_only_the_missing_packages(self, tmp_path: Path) -> None:
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


def configure(profile: Profile) -> dict[str, Any]:
    text = configuration(profile, SHIPPED, listener={"ip": "127.0.0.1", "port": 7}, database={"sql_type": "pgsql"})
    return dict(yaml.safe_load(text))


class TestProfiles:
    @pytest.mark.parametrize("profile", Profile)
    def test_each_listens_once_without_limits_and_archives_everything(self, profile: Profile) -> None:
        merged = configure(profile)
        listener = {"module": "ejabberd_c2s", "access": "all", "shaper": "none", "backlog": 1024}
        assert merged["listen"] == [{**listener, "ip": "127.0.0.1", "port": 7}]
        assert (merged["sql_type"], merged["auth_password_format"]) == ("pgsql", "plain")
        assert merged["modules"]["mod_mam"] == {"db_type": "sql", "default": "always"}
        assert merged["modules"]["mod_muc"]["default_room_options"] == {"persistent": True, "mam": True}

    def test_bare_has_no_other_modules(self) -> None:
        assert configure(Profile.BARE)["modules"].keys() == {"mod_mam", "mod_muc"}

    @pytest.mark.parametrize("profile", [Profile.SHIPPED, Profile.ACKNOWLEDGING])
    def test_the_others_have_the_package_configuration_without_tls(self, profile: Profile) -> None:
        merged = configure(profile)
        assert merged["loglevel"] == "info"
        assert merged["shaper_rules"] == {"max_user_offline_messages": {5000: "admin", 100: "all"}}
        assert merged["modules"].keys() == {"mod_privacy", "mod_mam", "mod_muc"}
        assert merged["modules"]["mod_muc"]["access_create"] == "muc_create"
        assert not {"define_macro", "certfiles", "c2s_protocol_options"} & merged.keys()

    def test_only_one_profile_requests_acks(self) -> None:
        assert [profile for profile in Profile if profile.acknowledges] == [Profile.ACKNOWLEDGING]


class TestAcknowledged:
    def test_one_ack_per_message_in_order_passes(self) -> None:
        require_acknowledged([acks(1, 2, 3), acks(1), []], [3, 1, 0])

    @pytest.mark.parametrize("counts", [(1, 2), (1, 3, 3), (2, 1, 3), (1, 2, 3, 4)])
    def test_a_missing_or_misplaced_ack_fails_the_run(self, counts: tuple[int, ...]) -> None:
        with pytest.raises(InvalidRun, match="sender 1 sent 3 messages"):
            require_acknowledged([acks(1), acks(*counts)], [1, 3])


def acks(*counts: int) -> list[bytes]:
    return [f"<a xmlns='urn:xmpp:sm:3' h='{count}'/>".encode() for count in counts]
