"""The close codes of the protocol."""

from enum import IntEnum

from prometheus_client import Counter

CLOSED = Counter("parley_gateway_closes_total", "Sockets that the gateway closed, by reason.", ["reason"])


class Close(IntEnum):
    NOT_TEXT = 1003
    INTERNAL = 1011
    RESTART = 1012
    PROTOCOL = 4400
    UNAUTHENTICATED = 4401
    SESSION_REVOKED = 4403
    HEARTBEAT_MISSED = 4408
    TOO_SLOW = 4409
    RATE_LIMITED = 4429
