"""The own marks: sent when they have moved, and again after a reconnect unless the server is known to have them."""

from collections.abc import Awaitable, Callable, Mapping

from parley_client.connection import Frame
from parley_client.marks import Mark

ACK, READ = "ack", "read"


class OwnMarks:
    """The furthest of each chat and kind. An acknowledgement says that nothing of it was read: `read` tells that."""

    def __init__(self, write: Callable[[Frame], Awaitable[None]]) -> None:
        self._write = write
        self._furthest: dict[tuple[str, str], int] = {}
        # In the order in which they have moved.
        self._waiting: dict[tuple[str, str], None] = {}
        self._is_plain = False

    def move(self, kind: str, chat_id: str, sequence: int) -> None:
        """Marks never move back."""
        if sequence > self._furthest.get((kind, chat_id), 0):
            self._furthest[kind, chat_id] = sequence
            self._waiting[kind, chat_id] = None

    async def flush(self) -> None:
        """Send what has moved. What a dying connection loses is repeated by the next one."""
        while self._waiting:
            kind, chat_id = key = next(iter(self._waiting))
            del self._waiting[key]
            frame: Frame = {"type": kind, "chat_id": chat_id, "sequence": self._furthest[key]}
            if self._is_plain:
                frame["type"] = ACK
            elif kind == ACK:
                frame["read"] = False
            await self._write(frame)

    def repeat(self, stored: Callable[[str], Mark]) -> None:
        """A new connection: send again what is beyond `stored`, the own marks in a chat as the server has told them."""
        self._is_plain = False
        for (kind, chat_id), sequence in self._furthest.items():
            mark = stored(chat_id)
            if sequence > (mark.delivered if kind == ACK else mark.read or 0):
                self._waiting[kind, chat_id] = None

    def on_error(self, frame: Mapping[str, object]) -> None:
        """A server of an earlier version refuses `read` frames and fields: there, reading is acknowledging."""
        is_about_nothing = "client_message_id" not in frame and "chat_id" not in frame
        if frame["code"] == "invalid_request" and is_about_nothing and not self._is_plain:
            self._is_plain = True
            self._waiting |= dict.fromkeys(self._furthest)
