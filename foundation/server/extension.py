"""What Parley's server offers a WebSocket application beyond ASGI, in `scope["extensions"]`.

Optional: under another server the extension is missing, and the application sends ASGI events only.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

SOCKET_EXTENSION = "parley.socket"

FRAME_RATE = 300.0
FRAME_BURST = 2_000.0
"""The pace of a connection in tokens a second, and how many it holds at most."""


class SocketExtension(Protocol):
    """Flow control and direct I/O for one client. Not writable while the client does not read what was written."""

    is_writable: bool
    writable: asyncio.Event

    def write(self, payload: bytes, frame: bytes) -> None:
        """Send a text frame: `payload` is its content, `frame` the same encoded for the wire."""

    def subscribe(self, on_frame: Callable[[str], bool], *, grant: Callable[[float], float]) -> None:
        """Pass text frames to `on_frame` as they arrive, while none waits to be received.

        A frame for which it returns False, and the frames behind it, are received as ASGI events. `grant` returns how
        many of the tokens that it is asked for the client may have: one for each frame that it sends.
        """

    def frame_handled(self) -> None:
        """The application has handled an ASGI event; read on from a client that was paused."""
