"""The configurations of the peer. The profile decides its speed, so every comparison names it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import yaml

from bench.peers.stanzas import HOST, ROOMS

ARCHIVE = {"db_type": "sql", "default": "always"}
ROOM = {"persistent": True, "mam": True}
UNUSED = ("certfiles", "define_macro", "c2s_ciphers", "s2s_ciphers", "c2s_protocol_options", "s2s_protocol_options")
"""TLS options: the benchmark does not use TLS."""


class Profile(StrEnum):
    """In the order of work done per message; the last does as much as Parley."""

    BARE = "bare"
    SHIPPED = "shipped"
    ACKNOWLEDGING = "acknowledging"

    @property
    def acknowledges(self) -> bool:
        """Whether senders of one-to-one messages request acks. Senders in a room get their own copy as one."""
        return self is Profile.ACKNOWLEDGING

    @property
    def description(self) -> str:
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    Profile.BARE: "two modules, the archive and rooms",
    Profile.SHIPPED: "the modules and options of its package's configuration",
    Profile.ACKNOWLEDGING: "as shipped, and the server acknowledges each message to its sender, as Parley does (W1)",
}


def configuration(profile: Profile, shipped: str, *, listener: Mapping[str, Any], database: Mapping[str, Any]) -> str:
    """One listener, no TLS, no limits, and every message archived in the database."""
    base: dict[str, Any] = {"loglevel": "warning", "default_db": "sql", "modules": {"mod_muc": {"db_type": "sql"}}}
    if profile is not Profile.BARE:
        base = {name: value for name, value in yaml.safe_load(shipped).items() if name not in UNUSED}
    modules = dict(base["modules"])
    modules["mod_mam"] = ARCHIVE
    modules["mod_muc"] = {**modules["mod_muc"], "host": ROOMS, "access_mam": "all", "default_room_options": ROOM}
    merged = {
        **base,
        "hosts": [HOST],
        "listen": [{"module": "ejabberd_c2s", "access": "all", "shaper": "none", "backlog": 1024, **listener}],
        "auth_method": ["sql"],
        "auth_password_format": "plain",
        **database,
        "modules": modules,
    }
    return yaml.safe_dump(merged)
