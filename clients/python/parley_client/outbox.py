"""Drafts that the server has not answered yet. Each keeps its `client_message_id`, so that it is stored once."""

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from parley_client.connection import Ended, Frame
from parley_client.log import Entry

DEFAULT_RETRY_AFTER = 0.5  # seconds
ENTRY_KINDS = {
    "send_message": "message",
    "edit_message": "edit",
    "delete_message": "deletion",
    "react": "reaction",
    "pin": "pin",
}


class SendFailed(Exception):
    """The server rejected a draft and a retry would not help. `code` is the server's error code."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code


@dataclass(frozen=True, slots=True)
class _Pending:
    frame: Frame
    ack: "asyncio.Future[Frame]"


class Outbox:
    """`write` sends a frame if there is a connection."""

    def __init__(self, write: Callable[[Frame], Awaitable[None]]) -> None:
        self._write = write
        self._pending: dict[str, _Pending] = {}
        self._ended: Ended | None = None

    async def post(
        self, type_: str, chat_id: str, fields: Mapping[str, Any], *, client_message_id: str | None = None
    ) -> Frame:
        """Send a draft and wait for its `ack`. Raises `SendFailed` and `Ended`."""
        if self._ended is not None:
            raise self._ended
        client_message_id = client_message_id or str(uuid.uuid4())
        given = {name: value for name, value in fields.items() if value not in (None, [])}
        frame = {"type": type_, "client_message_id": client_message_id, "chat_id": chat_id, **given}
        pending = _Pending(frame, asyncio.get_running_loop().create_future())
        self._pending[client_message_id] = pending
        await self._write(frame)
        return await pending.ack

    async def resend(self) -> None:
        """Call after each reconnect."""
        for pending in list(self._pending.values()):
            await self._write(pending.frame)

    def on_ack(self, ack: Frame, *, user_id: str) -> Entry | None:
        """The own entry that an `ack` confirms; None for a change that changed nothing.

        An entry is not pushed to the connection that sent it: its `ack` is its arrival.
        """
        pending = self._pending.pop(ack["client_message_id"], None)
        if pending is None:
            return None
        if not pending.ack.done():
            pending.ack.set_result(ack)
        if ack["sequence"] is None:
            return None
        fields = {name: value for name, value in pending.frame.items() if name != "type"}
        stored = {name: ack[name] for name in ("message_id", "sequence", "created_at")}
        kind = {"kind": ENTRY_KINDS[pending.frame["type"]], "sender_id": user_id}
        return {"content": "", "content_type": "text/plain", **fields, **kind, **stored}

    async def on_error(self, error: Frame) -> bool:
        """Retry or fail the draft that an error is about. False: it is about none."""
        pending = self._pending.get(error.get("client_message_id", ""))
        if pending is None:
            return False
        if error["retryable"]:
            await asyncio.sleep(retry_delay(error))
            if error["client_message_id"] in self._pending:
                await self._write(pending.frame)
        else:
            del self._pending[error["client_message_id"]]
            if not pending.ack.done():
                pending.ack.set_exception(SendFailed(error["code"], error["detail"]))
        return True

    def end(self, ended: Ended) -> None:
        """Fail every current and future draft."""
        self._ended = ended
        for pending in self._pending.values():
            if not pending.ack.done():
                pending.ack.set_exception(ended)
        self._pending.clear()


def retry_delay(error: Frame) -> float:
    """Seconds to wait, with jitter."""
    delay: float = error.get("retry_after", DEFAULT_RETRY_AFTER)
    return delay * random.uniform(1, 2)  # noqa: S311 - jitter, not a secret
