"""The client: one WebSocket at a time, with reconnect, resend, sync and acknowledgements."""

import asyncio
import contextlib
import json
import logging
import random
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.e2e.earlier.timeline import Message, Timeline

log = logging.getLogger(__name__)

Url = str | Callable[[], str]
Token = str | Callable[[], Awaitable[str]]
UNAUTHENTICATED, SESSION_REVOKED = 4401, 4403
KEPT_FRAMES = 1_000
ACK_INTERVAL = 0.2  # seconds
DEFAULT_RETRY_AFTER = 0.5  # seconds


class Ended(Exception):
    """The session is over: it was revoked, or the server rejected the only token."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the server closed the connection for good ({code})")
        self.code = code


class SendFailed(Exception):
    """The server rejected a message and a retry would not help. `code` is the server's error code."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code


@dataclass(slots=True)
class _PendingMessage:
    chat_id: str
    content: str
    ack: "asyncio.Future[dict[str, Any]]"


class Client:
    """An async context manager, bound to one event loop.

    `url` and `token` may be callables: `url` picks a gateway for each connection, `token` returns a fresh access token.
    The reconnect delay is random up to a bound that doubles from `first_pause` to `longest_pause` seconds.
    """

    def __init__(
        self,
        url: Url,
        *,
        token: Token,
        first_pause: float = 0.2,
        longest_pause: float = 5.0,
        acknowledge: bool = True,
    ) -> None:
        self._url = url
        self._token = token
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._acknowledge = acknowledge
        self._timelines: dict[str, Timeline] = {}
        self._syncing: set[str] = set()
        self._unacknowledged: set[str] = set()
        self._pending: dict[str, _PendingMessage] = {}
        self._delivered: asyncio.Queue[Message | Ended] = asyncio.Queue()
        self._token_in_use = ""
        self.user_id = ""
        self._socket: ClientConnection | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.connected = asyncio.Event()
        self.notices: deque[dict[str, Any]] = deque(maxlen=KEPT_FRAMES)
        self.errors: deque[dict[str, Any]] = deque(maxlen=KEPT_FRAMES)
        self._ended: Ended | None = None
        self.connections = 0
        self.closed_with: int | None = None

    async def __aenter__(self) -> "Client":
        self._spawn(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._flush_acks()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._socket is not None:
            await self._socket.close()

    def follow(self, chat_id: str, *, last_seen: int = 0) -> Timeline:
        """Deliver a chat's messages after `last_seen`: stored ones are fetched, new ones are pushed."""
        timeline = self._timelines.setdefault(chat_id, Timeline(last_seen=last_seen))
        if self.connected.is_set():
            self._spawn(self._sync(chat_id))
        return timeline

    async def send(self, chat_id: str, content: str, *, client_message_id: str | None = None) -> dict[str, Any]:
        """Send, resend after each reconnect, and return the server's `ack`. Raises `SendFailed` and `Ended`."""
        if self._ended is not None:
            raise self._ended
        client_message_id = client_message_id or str(uuid.uuid4())
        pending = _PendingMessage(chat_id, content, asyncio.get_running_loop().create_future())
        self._pending[client_message_id] = pending
        await self._send_message(client_message_id)
        return await pending.ack

    async def messages(self) -> AsyncIterator[Message]:
        """Yield the messages of all chats; each chat in order, without gaps. Raises `Ended`."""
        while True:
            yield await self._next()

    async def read(self, count: int, *, within: float = 20.0) -> list[Message]:
        """Return the next `count` messages. Raises `Ended`, and `TimeoutError` after `within` seconds."""
        async with asyncio.timeout(within):
            return [await self._next() for _ in range(count)]

    async def _next(self) -> Message:
        message = await self._delivered.get()
        if isinstance(message, Ended):
            self._delivered.put_nowait(message)
            raise message
        return message

    def reconnect(self) -> None:
        """Abort the connection without a closing handshake, as a network change does, and connect again."""
        if self._socket is not None:
            self._socket.transport.abort()

    # Connection

    async def _run(self) -> None:
        failures = 0
        while not self._is_final(self.closed_with):
            try:
                url = self._url if isinstance(self._url, str) else self._url()
                async with connect(url, additional_headers=await self._headers(), compression=None) as socket:
                    hello = json.loads(await socket.recv())
                    failures = 0
                    await self._serve(socket, hello)
            except ConnectionClosed as closed:
                self.closed_with = closed.rcvd.code if closed.rcvd else None
                failures += 1
            except Exception as error:  # noqa: BLE001 - any failure, also of the token callable, is retried
                log.info("connection failed: %r", error)
                failures += 1
            finally:
                self._socket = None
                self.connected.clear()
                self._syncing.clear()
            bound = min(self._longest_pause, self._first_pause * 2**failures)
            await asyncio.sleep(random.uniform(0, bound))
        self._end(Ended(self.closed_with or SESSION_REVOKED))

    def _is_final(self, code: int | None) -> bool:
        """A revoked session is final; so is a rejected token without a callable to get another."""
        return code == SESSION_REVOKED or (code == UNAUTHENTICATED and isinstance(self._token, str))

    def _end(self, ended: Ended) -> None:
        """Fail every pending and future send, and every current and future read."""
        self._ended = ended
        for pending in self._pending.values():
            if not pending.ack.done():
                pending.ack.set_exception(ended)
        self._pending.clear()
        self._delivered.put_nowait(ended)

    async def _headers(self) -> dict[str, str]:
        self._token_in_use = self._token if isinstance(self._token, str) else await self._token()
        return {"Authorization": f"Bearer {self._token_in_use}"}

    async def _reauthenticate(self) -> None:
        """Keep the connection alive with a fresh token, if the token is a callable."""
        if isinstance(self._token, str):
            return
        token = await self._token()
        if token != self._token_in_use:
            self._token_in_use = token
            await self._write({"type": "authenticate", "access_token": token})

    async def _serve(self, socket: ClientConnection, hello: dict[str, Any]) -> None:
        self._socket = socket
        self.user_id = hello["user_id"]
        self.connections += 1
        background = [
            asyncio.create_task(self._send_heartbeats(socket, hello["heartbeat_interval"])),
            asyncio.create_task(self._flush_acks_periodically()),
        ]
        self.connected.set()
        try:
            await self._sync_all()
            for client_message_id in list(self._pending):
                await self._send_message(client_message_id)
            async for text in socket:
                await self._receive(json.loads(text))
        finally:
            for task in background:
                task.cancel()

    async def _send_heartbeats(self, socket: ClientConnection, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            with contextlib.suppress(ConnectionClosed):
                await socket.send('{"type":"heartbeat"}')
                await self._reauthenticate()

    async def _flush_acks_periodically(self) -> None:
        while True:
            await asyncio.sleep(ACK_INTERVAL)
            await self._flush_acks()

    async def _flush_acks(self) -> None:
        """Coalesce: one frame per chat and interval, because the server rate-limits frames."""
        while self._unacknowledged and self._socket is not None:
            chat_id = self._unacknowledged.pop()
            await self._write({"type": "ack", "chat_id": chat_id, "sequence": self._timelines[chat_id].last_seen})

    # Frames

    async def _receive(self, frame: dict[str, Any]) -> None:
        match frame["type"]:
            case "message":
                await self._deliver(frame["chat_id"], [frame])
            case "message_batch":
                await self._deliver(frame["chat_id"], frame["messages"])
            case "sync_batch":
                await self._on_sync_batch(frame)
            case "ack":
                await self._on_ack(frame)
            case "error":
                await self._on_error(frame)
            case "resync":
                await self._sync_all()
            case "chat_created":
                self.notices.append(frame)
                self.follow(frame["chat_id"])
            case "membership_changed":
                self.notices.append(frame)

    async def _deliver(self, chat_id: str, messages: list[Message]) -> None:
        timeline = self._timelines.setdefault(chat_id, Timeline())
        ready = timeline.take(messages)
        for message in ready:
            self._delivered.put_nowait(message)
        if ready and self._acknowledge:
            self._unacknowledged.add(chat_id)
        if timeline.has_gap:
            await self._sync(chat_id)

    async def _on_sync_batch(self, frame: dict[str, Any]) -> None:
        chat_id = frame["chat_id"]
        self._syncing.discard(chat_id)
        await self._deliver(chat_id, frame["messages"])
        if frame["has_more"] and chat_id not in self._syncing:
            await self._sync(chat_id)

    async def _on_ack(self, frame: dict[str, Any]) -> None:
        pending = self._pending.pop(frame["client_message_id"], None)
        if pending is None:
            return
        if not pending.ack.done():
            pending.ack.set_result(frame)
        ids = {name: frame[name] for name in ("client_message_id", "chat_id", "message_id", "sequence", "created_at")}
        body = {"sender_id": self.user_id, "content": pending.content, "content_type": "text/plain"}
        await self._deliver(pending.chat_id, [{**ids, **body}])

    async def _on_error(self, frame: dict[str, Any]) -> None:
        self.errors.append(frame)
        client_message_id, chat_id = frame.get("client_message_id"), frame.get("chat_id")
        delay = frame.get("retry_after", DEFAULT_RETRY_AFTER)
        if client_message_id in self._pending:
            if frame["retryable"]:
                self._spawn(self._retry(self._send_message, client_message_id, delay))
                return
            pending = self._pending.pop(client_message_id)
            if not pending.ack.done():
                pending.ack.set_exception(SendFailed(frame["code"], frame["detail"]))
        elif chat_id in self._syncing:
            self._syncing.discard(chat_id)
            if frame["retryable"]:
                self._spawn(self._retry(self._sync, chat_id, delay))

    async def _sync_all(self) -> None:
        for chat_id in list(self._timelines):
            await self._sync(chat_id)

    async def _sync(self, chat_id: str) -> None:
        if chat_id not in self._syncing and self._socket is not None:
            self._syncing.add(chat_id)
            last_seen = self._timelines[chat_id].last_seen
            await self._write({"type": "sync_request", "chat_id": chat_id, "last_acked_sequence": last_seen})

    async def _send_message(self, client_message_id: str) -> None:
        if (pending := self._pending.get(client_message_id)) is not None:
            draft = {"client_message_id": client_message_id, "chat_id": pending.chat_id, "content": pending.content}
            await self._write({"type": "send_message", **draft})

    async def _write(self, frame: dict[str, Any]) -> None:
        """Drop the frame if there is no connection: every reconnect syncs and resends."""
        if self._socket is not None:
            with contextlib.suppress(ConnectionClosed):
                await self._socket.send(json.dumps(frame))

    async def _retry(self, call: Callable[[str], Awaitable[None]], argument: str, delay: float) -> None:
        await asyncio.sleep(delay * random.uniform(1, 2))
        await call(argument)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
