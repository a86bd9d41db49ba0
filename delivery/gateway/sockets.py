"""A connection as the gateway's other parts see it."""

from typing import Protocol

from delivery.gateway import frames
from delivery.gateway.closing import Close
from delivery.stores.connections import Registration


class Socket(Protocol):
    registration: Registration
    registered_at: float

    def deliver(self, frame: frames.Frame) -> None: ...

    def end(self, close: Close) -> None: ...
