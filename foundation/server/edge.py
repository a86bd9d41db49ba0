"""The outermost ASGI middleware of the API: `Host`, HTTPS, CORS, and the headers that every answer has.

Does for the API what Django's security middleware does for `/admin/`, without a thread and before any other work.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from django.http.request import split_domain_port, validate_host

from foundation.kernel.errors import Forbidden, Malformed
from foundation.kernel.logs import REQUEST_ID
from foundation.kernel.tracing import TRACEPARENT, parse_traceparent
from foundation.rest.handler import Send
from foundation.rest.origins import AllowedOrigins, MalformedOrigin
from foundation.server.gate import refuse

log = logging.getLogger("django.security.DisallowedHost")

Header = tuple[bytes, bytes]

HOSTS_CACHED = 1024
PREFLIGHT_SECONDS = 7200
METHODS = b"GET, POST, PUT, PATCH, DELETE"
REQUEST_HEADERS = b"Authorization, Content-Type, Idempotency-Key, traceparent, X-Request-ID"
RESPONSE_HEADERS = b"Allow, Retry-After, WWW-Authenticate, X-Request-ID"
_REQUEST_ID = re.compile(rb"[\w.-]{1,64}")
NO_STORE: Header = (b"cache-control", b"no-store")
HEADERS: Sequence[Header] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
"""The headers of answers that do not have one of that name."""


@dataclass(frozen=True, slots=True)
class EdgeOptions:
    """`https_only` redirects to HTTPS, except paths that match one of `https_exempt`.

    `probes` are paths that are asked by address, without TLS: a load balancer names the process's address as `Host`.
    `trusts_forwarded_proto`: a proxy terminates TLS and says so. With `hsts_seconds`, browsers keep to HTTPS.
    """

    allowed_hosts: Sequence[str]
    allowed_origins: Sequence[str]
    https_only: bool = False
    https_exempt: Sequence[str] = ()
    probes: Collection[str] = ()
    trusts_forwarded_proto: bool = False
    hsts_seconds: int = 0


class Edge:
    """Refuses unknown hosts, except to probes, and answers preflight requests; other requests reach the application."""

    def __init__(self, application: Callable[..., Awaitable[None]], options: EdgeOptions) -> None:
        self._application = application
        self._options = options
        self._origins = AllowedOrigins(options.allowed_origins)
        self._exempt = [re.compile(pattern) for pattern in options.https_exempt]
        hsts = f"max-age={options.hsts_seconds}; includeSubDomains; preload"
        self._hsts = (b"strict-transport-security", hsts.encode())
        self._is_known_host = lru_cache(HOSTS_CACHED)(self._check_host)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        asked = _Asked.read(scope["headers"])
        is_secure = scope.get("scheme") == "https" or self._is_secure(asked)
        origin = self._allowed_origin(asked)
        REQUEST_ID.set(asked.request_id)
        TRACEPARENT.set(asked.traceparent)
        send = _adding(send, self._headers(asked.request_id, origin=origin, is_secure=is_secure))
        host = asked.host or str((scope.get("server") or ("",))[0]).encode()
        is_probe = scope["path"] in self._options.probes
        if not is_probe and not self._is_known_host(host):
            log.error("Invalid HTTP_HOST header: %r.", host.decode("latin1"))
            await refuse(send, Malformed())
        elif self._options.https_only and not is_secure and not is_probe and not self._is_exempt(scope["path"]):
            await _redirect(send, host, scope)
        elif scope["method"] == "OPTIONS" and asked.is_preflight:
            await _answer_preflight(send, is_allowed=origin is not None)
        else:
            await self._application(scope, receive, send)

    def complete(self, asked: Iterable[Header], own: Sequence[Header], status: int) -> list[Header]:
        """The headers of an answer that the server makes itself, before there is a request for an application."""
        read = _Asked.read(asked)
        headers = self._headers(read.request_id, origin=self._allowed_origin(read), is_secure=self._is_secure(read))
        return _completed(own, status, headers)

    def _is_secure(self, asked: "_Asked") -> bool:
        return self._options.trusts_forwarded_proto and asked.forwarded_proto.split(b",")[0].strip() == b"https"

    def _allowed_origin(self, asked: "_Asked") -> bytes | None:
        return asked.origin if asked.origin is not None and self._allows(asked.origin) else None

    def _headers(self, request_id: str, *, origin: bytes | None, is_secure: bool) -> list[Header]:
        headers: list[Header] = [(b"x-request-id", request_id.encode())]
        if self._options.allowed_origins:
            headers.append((b"vary", b"Origin"))
        if origin is not None:
            headers.append((b"access-control-allow-origin", origin))
            headers.append((b"access-control-expose-headers", RESPONSE_HEADERS))
        if is_secure and self._options.hsts_seconds:
            headers.append(self._hsts)
        return headers

    def _allows(self, origin: bytes) -> bool:
        try:
            return self._origins.allow(origin.decode("latin1"))
        except MalformedOrigin:
            return False

    def _check_host(self, host: bytes) -> bool:
        domain, _ = split_domain_port(host.decode("latin1"))
        return bool(domain) and validate_host(domain, self._options.allowed_hosts)

    def _is_exempt(self, path: str) -> bool:
        return any(pattern.search(path.lstrip("/")) for pattern in self._exempt)


@dataclass(slots=True)
class _Asked:
    """The headers of a request that matter here."""

    host: bytes = b""
    origin: bytes | None = None
    forwarded_proto: bytes = b""
    is_preflight: bool = False
    request_id: str = ""
    traceparent: str | None = None

    @classmethod
    def read(cls, headers: Iterable[Header]) -> "_Asked":
        asked = cls()
        for name, value in headers:
            if name == b"host":
                asked.host = asked.host + b"," + value if asked.host else value
            elif name == b"origin":
                asked.origin = value
            elif name == b"x-forwarded-proto":
                asked.forwarded_proto = value
            elif name == b"access-control-request-method":
                asked.is_preflight = True
            elif name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                asked.request_id = value.decode()
            elif name == b"traceparent":
                asked.traceparent = parse_traceparent(value.decode("latin1"))
        asked.is_preflight = asked.is_preflight and asked.origin is not None
        asked.request_id = asked.request_id or token_hex(8)
        return asked


def _adding(send: Send, headers: Sequence[Header]) -> Send:
    async def send_with_headers(event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            event = {**event, "headers": _completed(event.get("headers", []), event["status"], headers)}
        await send(event)

    return send_with_headers


def _completed(own: Sequence[Header], status: int, headers: Sequence[Header]) -> list[Header]:
    """Adds `headers`, and `HEADERS` and `no-store` unless the answer has its own."""
    names = {name.lower() for name, _ in own}
    missing = [header for header in HEADERS if header[0] not in names]
    if NO_STORE[0] not in names and status != HTTPStatus.NOT_MODIFIED:
        missing.append(NO_STORE)
    return [*own, *missing, *headers]


async def _redirect(send: Send, host: bytes, scope: dict[str, Any]) -> None:
    path = scope.get("raw_path") or quote(scope["path"]).encode()
    query = b"?" + scope["query_string"] if scope.get("query_string") else b""
    headers = [(b"location", b"https://" + host + path + query), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": HTTPStatus.MOVED_PERMANENTLY, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _answer_preflight(send: Send, *, is_allowed: bool) -> None:
    if not is_allowed:
        await refuse(send, Forbidden("This origin may not use the API"))
        return
    headers = [
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", REQUEST_HEADERS),
        (b"access-control-max-age", str(PREFLIGHT_SECONDS).encode()),
    ]
    await send({"type": "http.response.start", "status": HTTPStatus.NO_CONTENT, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
