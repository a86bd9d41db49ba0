"""Who is knocking: the credentials and the origin of a WebSocket handshake. The token is never in the URL."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

SUBPROTOCOL = "parley.v1"
_BEARER = "bearer."


@dataclass(frozen=True, slots=True)
class Handshake:
    """`subprotocol` is what to select, if the client offered it."""

    token: str | None
    subprotocol: str | None
    origin: str | None
    host: str

    def comes_from(self, allowed: Iterable[str]) -> bool:
        """Browsers name their origin: it must be this host or an allowed one. Other clients name none."""
        if self.origin is None:
            return True
        if self.host and _place_of(self.origin) == self.host:
            return True
        return any(fnmatchcase(self.origin, pattern) for pattern in allowed)


def _place_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def read(scope: Mapping[str, Any]) -> Handshake:
    headers = {name.decode("latin1").lower(): value.decode("latin1") for name, value in scope.get("headers", [])}
    offered = scope.get("subprotocols", [])
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        token = next((name.removeprefix(_BEARER) for name in offered if name.startswith(_BEARER)), "")
    return Handshake(
        token=token.strip() or None,
        subprotocol=SUBPROTOCOL if SUBPROTOCOL in offered else None,
        origin=headers.get("origin"),
        host=headers.get("host", ""),
    )
