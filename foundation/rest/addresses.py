"""The client's IP address (ADR-011)."""

import ipaddress
from collections.abc import Iterable

from django.http import HttpRequest
from rest_framework.request import Request

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class ClientAddress:
    """Reads the client's address from the connection, or from `X-Forwarded-For` if a trusted proxy wrote it.

    `trusted` are the networks of our proxies. Without any, the header is ignored, because any client can set it.
    """

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        self._trusted = [ipaddress.ip_network(network) for network in trusted]

    def __call__(self, request: Request | HttpRequest) -> str:
        """The IP address, or an empty string for a connection without one, such as a Unix socket."""
        peer = _parse(request.META.get("REMOTE_ADDR", ""))
        if peer is None:
            return ""
        hops = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
        while hops and self._is_proxy(peer) and (hop := _parse(hops.pop())) is not None:
            peer = hop
        return str(peer)

    def _is_proxy(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self._trusted)


def _parse(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.strip())
    except ValueError:
        return None
