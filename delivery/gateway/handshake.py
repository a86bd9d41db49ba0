"""The WebSocket handshake: token, subprotocol and origin. The token is never in the URL."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http.request import split_domain_port, validate_host

from delivery.gateway.closing import Close
from foundation.kernel.errors import ParleyError, RateLimited, Unavailable
from foundation.kernel.tracing import TRACEPARENT_HEADER, parse_traceparent
from foundation.rest.origins import DEFAULT_PORTS, NULL_ORIGIN, AllowedOrigins, MalformedOrigin, Origin

SUBPROTOCOL = "parley.v1"
_REFUSED_CALLERS = ("session_revoked", "account_suspended")
_BEARER = "bearer."


class BadHandshake(ValueError):
    """The Origin or Host header is malformed."""


@dataclass(frozen=True, slots=True)
class Handshake:
    """`subprotocol` is the one to select, if the client offered it. `is_secure`: the client is known to use TLS."""

    token: str | None
    subprotocol: str | None
    origin: str | None
    host: str
    is_secure: bool = False
    traceparent: str | None = None

    def is_from(self, allowed_origins: AllowedOrigins, allowed_hosts: Iterable[str]) -> bool:
        """Whether the origin is this host or an allowed one. Clients that are not browsers send no origin.

        Raises `BadHandshake`.
        """
        domain, port = split_domain_port(self.host)
        if self.host and not domain:
            raise BadHandshake("the host is malformed")
        if self.origin is None:
            return True
        try:
            return allowed_origins.allow(self.origin) or (
                self.origin != NULL_ORIGIN
                and validate_host(domain, allowed_hosts)
                and self._is_same(Origin.parse(self.origin), domain, port)
            )
        except MalformedOrigin as error:
            raise BadHandshake(str(error)) from error

    def _is_same(self, origin: Origin, domain: str, port: str) -> bool:
        """Without TLS of our own, the scheme is only known if a proxy tells: then it must be `https`."""
        if self.is_secure and origin.scheme != "https":
            return False
        return (origin.host, origin.port) == (domain, port or DEFAULT_PORTS.get(origin.scheme, ""))


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
        is_secure="https" in headers.get("x-forwarded-proto", "") or scope.get("scheme") == "wss",
        traceparent=parse_traceparent(headers.get(TRACEPARENT_HEADER, "")),
    )


def close_code_for(error: ParleyError) -> Close:
    """How to refuse a token. One that cannot be checked now may be valid, so its client is told to reconnect."""
    if isinstance(error, Unavailable):
        return Close.RESTART
    if isinstance(error, RateLimited):
        return Close.RATE_LIMITED
    return Close.SESSION_REVOKED if error.code in _REFUSED_CALLERS else Close.UNAUTHENTICATED
