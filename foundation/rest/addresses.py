"""Where a request comes from, as far as it can be believed (ADR-011)."""

import ipaddress
from collections.abc import Iterable

from django.http import HttpRequest
from rest_framework.request import Request

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class ClientAddress:
    """Reads the caller's address from the connection; from `X-Forwarded-For` only as far as trusted proxies vouch.

    `trusted` are the networks of our own proxies. Without any, the header is ignored: anyone can write it.
    """

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        self._trusted = [ipaddress.ip_network(network) for network in trusted]

    def __call__(self, request: Request | HttpRequest) -> str:
        """An IP address, or empty where the connection has none, as on a Unix socket."""
        peer = _parsed(request.META.get("REMOTE_ADDR", ""))
        if peer is None:
            return ""
        hops = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
        while hops and self._is_proxy(peer) and (hop := _parsed(hops.pop())) is not None:
            peer = hop
        return str(peer)

    def _is_proxy(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self._trusted)


def _parsed(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.strip())
    except ValueError:
        return None
