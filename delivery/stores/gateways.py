"""The registry of connections as operators see it: who is connected to which gateway.

Reads what `ConnectionRegistry` writes. Entries of a gateway that died expire within a minute.
"""

from dataclasses import dataclass
from typing import Any, cast

import orjson
import redis

from delivery.stores.connections import Routes, gateway_key
from foundation.stores.redis.client import naming_failures


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """What the registry knows of a connection. `user_id` is empty if it has just ended."""

    connection_id: str
    user_id: str = ""
    device_id: str = ""
    connected_at: str = ""


@dataclass(frozen=True, slots=True)
class ConnectionPage:
    """`cursor` leads to the next page, or is None. Pages differ in size; connections that come and go may be missed."""

    connections: list[ConnectionState]
    cursor: int | None


class GatewayDirectory:
    """For threads. Raises `StoreUnavailable` when Redis is away."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client
        self._routes = Routes(client)

    def list_connections(self, gateway_id: str, *, limit: int, cursor: int = 0) -> ConnectionPage:
        """A page of a gateway's connections, in no order."""
        with naming_failures():
            following, found = cast(
                "tuple[int, list[bytes]]", self._client.sscan(gateway_key(gateway_id), cursor, count=limit)
            )
        return ConnectionPage(self._describe(sorted(found)), following or None)

    def connections_of(self, user_id: str) -> list[ConnectionState]:
        """A user's open connections."""
        (found,) = self._routes.connections_of([[user_id]])
        return self._describe([each.encode() for each in sorted(found)])

    def _describe(self, ids: list[bytes]) -> list[ConnectionState]:
        with naming_failures():
            entries = (
                cast("list[bytes | None]", self._client.mget([b"connection:" + each for each in ids])) if ids else []
            )
        return [_state(each.decode(), entry) for each, entry in zip(ids, entries, strict=True)]


def _state(connection_id: str, entry: bytes | None) -> ConnectionState:
    known: dict[str, Any] = orjson.loads(entry) if entry else {}
    return ConnectionState(
        connection_id=connection_id,
        user_id=known.get("user_id", ""),
        device_id=known.get("device_id", ""),
        connected_at=known.get("connected_at", ""),
    )
