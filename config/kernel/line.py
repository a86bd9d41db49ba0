"""What Parley's server offers the application of a socket beyond ASGI, in `scope["extensions"]`.

Optional: under another server the extension is missing, and the application writes by ASGI's own events.
"""

import asyncio
from typing import Protocol

LINE = "parley.line"


class Line(Protocol):
    """The way to one client. `open` is clear while the client does not take what is written to it."""

    open: asyncio.Event

    def write(self, frame: bytes) -> None:
        """Write one whole WebSocket frame, at once as far as the socket takes it."""

    def frame_taken(self) -> None:
        """The application has dealt with a frame; let the client go on where it was stopped."""
