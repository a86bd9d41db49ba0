"""The client's IP address (ADR-011)."""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from django.http import HttpRequest
from rest_framework.request import Request

from foundation.kernel.addresses import Address, parse_address


class ClientAddress:
    """Reads the client's address from the connection, or from `X-Forwarded-For` if a trusted proxy wrote it.

    `trusted` are the networks of our proxies. Without any, the header is ignored, because any client can set it.
    """

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        self._trusted = [ipaddress.ip_network(network) for network in trusted]

    def __call__(self, request: Request | HttpRequest) -> str:
        """The IP address, or an empty string for a connection without one, such as a Unix socket."""
        return self.resolve(request.META.get("REMOTE_ADDR", ""), request.META.get("HTTP_X_FORWARDED_FOR", ""))

    def of_scope(self, scope: Mapping[str, Any]) -> str:
        """The same of an ASGI request."""
        forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        return self.resolve((scope.get("client") or ("",))[0], b",".join(forwarded).decode("latin1"))

    def resolve(self, peer: str, forwarded_for: str) -> str:
        """The same from the address of the connection and the value of `X-Forwarded-For`."""
        address = parse_address(peer)
        if address is None:
            return ""
        hops = forwarded_for.split(",")
        while hops and self._is_trusted(address) and (hop := parse_address(hops.pop())) is not None:
            address = hop
        return str(address)

    def is_proxy(self, address: str) -> bool:
        parsed = parse_address(address)
        return parsed is not None and self._is_trusted(parsed)

    def _is_trusted(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self._trusted)
