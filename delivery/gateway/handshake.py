"""The WebSocket handshake: token, subprotocol and origin. The token is never in the URL."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from delivery.gateway.closing import Close
from foundation.kernel.errors import ParleyError, Unavailable

SUBPROTOCOL = "parley.v1"
_BEARER = "bearer."


@dataclass(frozen=True, slots=True)
class Handshake:
    """`subprotocol` is the one to select, if the client offered it."""

    token: str | None
    subprotocol: str | None
    origin: str | None
    host: str

    def is_from(self, allowed_origins: Iterable[str]) -> bool:
        """Whether the origin is this host or an allowed one. Clients that are not browsers send no origin."""
        if self.origin is None:
            return True
        if self.host and _netloc(self.origin) == self.host:
            return True
        return any(fnmatchcase(self.origin, pattern) for pattern in allowed_origins)


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def parse(scope: Mapping[str, Any]) -> Handshake:
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


def close_code_for(error: ParleyError) -> Close:
    """How to refuse a token. One that cannot be checked now may be valid, so its client is told to reconnect."""
    if isinstance(error, Unavailable):
        return Close.RESTART
    return Close.SESSION_REVOKED if error.code == "session_revoked" else Close.UNAUTHENTICATED
