"""A socket that records what a gateway gives it."""

import asyncio

from delivery.gateway import frames
from delivery.gateway.closing import Close
from delivery.gateway.hub import UNREGISTERED
from delivery.stores.connections import Registration
from foundation.kernel.ids import ConnectionId, SessionId, UserId


class FakeSocket:
    def __init__(self, name: str) -> None:
        self.registration = Registration(
            ConnectionId(f"gw.{name}"), UserId("user"), SessionId(f"sess_{name}"), "phone", ""
        )
        self.registered_at = UNREGISTERED
        self.frames: list[frames.Frame] = []
        self.closed: list[Close] = []
        self.has_closed = asyncio.Event()
        self.has_frames = asyncio.Event()

    def deliver(self, frame: frames.Frame) -> None:
        self.frames.append(frame)
        self.has_frames.set()

    def end(self, close: Close) -> None:
        self.closed.append(close)
        self.has_closed.set()
