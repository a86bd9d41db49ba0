"""What Parley's server offers the application of a socket beyond ASGI, in `scope["extensions"]`.

Optional: under another server the extension is missing, and the application writes by ASGI's own events.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

LINE = "parley.line"


class Line(Protocol):
    """The way to one client. It is not open while the client does not take what is written to it."""

    is_open: bool
    open: asyncio.Event

    def write(self, frame: bytes) -> None:
        """Write one whole WebSocket frame, at once as far as the socket takes it."""

    def bring_frames(self, taker: Callable[[str], bool]) -> None:
        """Have text frames brought to `taker` as they arrive, while none waits to be received.

        One that it answers with False, and what comes behind it, is received as an event of ASGI.
        """

    def frame_taken(self) -> None:
        """The application has dealt with a frame; let the client go on where it was stopped."""
