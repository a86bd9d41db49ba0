"""How the peer is set up: with no more than the workloads need, or as its package ships it.

Which it is decides how fast it is, so every comparison names it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import yaml

from bench.peers.stanzas import HOST, ROOMS

ARCHIVE = {"db_type": "sql", "default": "always"}
ROOM = {"persistent": True, "mam": True}
UNUSED = ("certfiles", "define_macro", "c2s_ciphers", "s2s_ciphers", "c2s_protocol_options", "s2s_protocol_options")
"""What the package says of TLS, which nobody speaks here."""


class Manner(StrEnum):
    """From the least that ejabberd can do to what Parley does."""

    BARE = "bare"
    SHIPPED = "shipped"
    ACKNOWLEDGING = "acknowledging"

    @property
    def acknowledges(self) -> bool:
        """Whether who sends to one person asks to be told that the server has it. A room tells its senders anyway."""
        return self is Manner.ACKNOWLEDGING

    @property
    def meaning(self) -> str:
        return _MEANING[self]


_MEANING = {
    Manner.BARE: "two modules, the archive and rooms",
    Manner.SHIPPED: "the modules and options of its package's configuration",
    Manner.ACKNOWLEDGING: "as shipped, and senders are told that the server has a message, as Parley tells them (W1)",
}


def configuration(manner: Manner, shipped: str, *, listener: Mapping[str, Any], database: Mapping[str, Any]) -> str:
    """One that listens once, without TLS and without limits, and archives every message in the database."""
    base: dict[str, Any] = {"loglevel": "warning", "default_db": "sql", "modules": {"mod_muc": {"db_type": "sql"}}}
    if manner is not Manner.BARE:
        base = {name: value for name, value in yaml.safe_load(shipped).items() if name not in UNUSED}
    modules = dict(base["modules"])
    modules["mod_mam"] = ARCHIVE
    modules["mod_muc"] = {**modules["mod_muc"], "host": ROOMS, "access_mam": "all", "default_room_options": ROOM}
    whole = {
        **base,
        "hosts": [HOST],
        "listen": [{"module": "ejabberd_c2s", "access": "all", "shaper": "none", "backlog": 1024, **listener}],
        "auth_method": ["sql"],
        "auth_password_format": "plain",
        **database,
        "modules": modules,
    }
    return yaml.safe_dump(whole)
