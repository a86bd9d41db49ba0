"""The connection: one socket at a time, as many as it takes."""

import asyncio
import contextlib
import json
import logging
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from parley_client.timeline import Message, Timeline

log = logging.getLogger(__name__)

Url = str | Callable[[], str]
Token = str | Callable[[], Awaitable[str]]
UNAUTHENTICATED, SESSION_REVOKED = 4401, 4403
ACK_PAUSE = 0.2


class Ended(Exception):
    """The server will not have this client back: its session was revoked, or its only token has expired."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the server closed the connection for good ({code})")
        self.code = code


class SendFailed(Exception):
    """The server refused a message for good. `code` is the contract's."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code


@dataclass(slots=True)
class _Unacknowledged:
    chat_id: str
    content: str
    answer: "asyncio.Future[dict[str, Any]]"


class Client:
    """Use it as an async context manager. Only for one event loop."""

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
        self._to_acknowledge: set[str] = set()
        self._unacknowledged: dict[str, _Unacknowledged] = {}
        self._shown: asyncio.Queue[Message | Ended] = asyncio.Queue()
        self._shown_token = ""
        self.user_id = ""
        self._socket: ClientConnection | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.connected = asyncio.Event()
        self.notices: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []
        self.connections = 0
        self.closed_with: int | None = None

    async def __aenter__(self) -> "Client":
        self._start(self._live())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._acknowledge_shown()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._socket is not None:
            await self._socket.close()

    def follow(self, chat_id: str, *, last_seen: int = 0) -> Timeline:
        """Read a chat from behind `last_seen` on: what is missed is fetched, what is new is pushed."""
        timeline = self._timelines.setdefault(chat_id, Timeline(last_seen=last_seen))
        if self.connected.is_set():
            self._start(self._sync(chat_id))
        return timeline

    async def send(self, chat_id: str, content: str, *, client_message_id: str | None = None) -> dict[str, Any]:
        """Return the server's `ack`, however many connections that takes. Raises `SendFailed` and `Ended`."""
        client_message_id = client_message_id or str(uuid.uuid4())
        pending = _Unacknowledged(chat_id, content, asyncio.get_running_loop().create_future())
        self._unacknowledged[client_message_id] = pending
        await self._send_message(client_message_id)
        return await pending.answer

    async def messages(self) -> AsyncIterator[Message]:
        """What is to be shown, of all chats, each chat dense and in order. Raises `Ended`."""
        while True:
            yield await self._next()

    async def read(self, count: int, *, within: float = 20.0) -> list[Message]:
        """The next `count` messages to be shown. Raises `Ended`, and TimeoutError."""
        async with asyncio.timeout(within):
            return [await self._next() for _ in range(count)]

    async def _next(self) -> Message:
        message = await self._shown.get()
        if isinstance(message, Ended):
            self._shown.put_nowait(message)
            raise message
        return message

    def reconnect(self) -> None:
        """Drop the connection without a word, as when the network changes, and make a new one."""
        if self._socket is not None:
            self._socket.transport.abort()

    # The socket's life

    async def _live(self) -> None:
        failures = 0
        while not self._is_final(self.closed_with):
            try:
                async with connect(self._place(), additional_headers=await self._headers(), compression=None) as socket:
                    hello = json.loads(await socket.recv())
                    failures = 0
                    await self._serve(socket, hello)
            except ConnectionClosed as closed:
                self.closed_with = closed.rcvd.code if closed.rcvd else None
                failures += 1
            except Exception as error:  # noqa: BLE001 - whatever it was, also of the token's source: try again later
                log.info("no connection: %r", error)
                failures += 1
            finally:
                self._socket = None
                self.connected.clear()
                self._syncing.clear()
            pause = min(self._longest_pause, self._first_pause * 2**failures)
            await asyncio.sleep(random.uniform(0, pause))  # noqa: S311 - not a secret
        self._end(Ended(self.closed_with or SESSION_REVOKED))

    def _is_final(self, code: int | None) -> bool:
        """A revoked session is; a refused token is where there is no other to be had."""
        return code == SESSION_REVOKED or (code == UNAUTHENTICATED and isinstance(self._token, str))

    def _end(self, ended: Ended) -> None:
        """Nobody waits for ever: neither who sends nor who reads."""
        for pending in self._unacknowledged.values():
            if not pending.answer.done():
                pending.answer.set_exception(ended)
        self._unacknowledged.clear()
        self._shown.put_nowait(ended)

    def _place(self) -> str:
        """Where to connect to; several gateways are offered by a callable that chooses."""
        return self._url if isinstance(self._url, str) else self._url()

    async def _headers(self) -> dict[str, str]:
        self._shown_token = self._token if isinstance(self._token, str) else await self._token()
        return {"Authorization": f"Bearer {self._shown_token}"}

    async def _show_fresh_token(self) -> None:
        """A connection lives on with a new token, where there is a source of them."""
        if isinstance(self._token, str):
            return
        token = await self._token()
        if token != self._shown_token:
            self._shown_token = token
            await self._write({"type": "authenticate", "access_token": token})

    async def _serve(self, socket: ClientConnection, hello: dict[str, Any]) -> None:
        self._socket = socket
        self.user_id = hello["user_id"]
        self.connections += 1
        routine = [
            asyncio.ensure_future(self._beat(socket, hello["heartbeat_interval"])),
            asyncio.ensure_future(self._acknowledge_often()),
        ]
        self.connected.set()
        try:
            await self._resync()
            for client_message_id in list(self._unacknowledged):
                await self._send_message(client_message_id)
            async for text in socket:
                await self._receive(json.loads(text))
        finally:
            for task in routine:
                task.cancel()

    async def _beat(self, socket: ClientConnection, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            with contextlib.suppress(ConnectionClosed):
                await socket.send('{"type":"heartbeat"}')
                await self._show_fresh_token()

    async def _acknowledge_often(self) -> None:
        while True:
            await asyncio.sleep(ACK_PAUSE)
            await self._acknowledge_shown()

    async def _acknowledge_shown(self) -> None:
        """All that has been shown since the last time: a frame for each would be more than a server puts up with."""
        while self._to_acknowledge and self._socket is not None:
            chat_id = self._to_acknowledge.pop()
            await self._write({"type": "ack", "chat_id": chat_id, "sequence": self._timelines[chat_id].last_seen})

    # Frames

    async def _receive(self, frame: dict[str, Any]) -> None:
        match frame["type"]:
            case "message":
                await self._arrived(frame["chat_id"], [frame])
            case "message_batch":
                await self._arrived(frame["chat_id"], frame["messages"])
            case "sync_batch":
                await self._synced(frame)
            case "ack":
                await self._acknowledged(frame)
            case "error":
                await self._refused(frame)
            case "resync":
                await self._resync()
            case "chat_created":
                self.notices.append(frame)
                self.follow(frame["chat_id"])
            case "membership_changed":
                self.notices.append(frame)

    async def _arrived(self, chat_id: str, messages: list[Message]) -> None:
        timeline = self._timelines.setdefault(chat_id, Timeline())
        ready = timeline.take(messages)
        for message in ready:
            self._shown.put_nowait(message)
        if ready and self._acknowledge:
            self._to_acknowledge.add(chat_id)
        if timeline.has_gap:
            await self._sync(chat_id)

    async def _synced(self, frame: dict[str, Any]) -> None:
        chat_id = frame["chat_id"]
        self._syncing.discard(chat_id)
        await self._arrived(chat_id, frame["messages"])
        if frame["has_more"] and chat_id not in self._syncing:
            await self._sync(chat_id)

    async def _acknowledged(self, frame: dict[str, Any]) -> None:
        pending = self._unacknowledged.pop(frame["client_message_id"], None)
        if pending is None:
            return
        if not pending.answer.done():
            pending.answer.set_result(frame)
        own = {name: frame[name] for name in ("client_message_id", "chat_id", "message_id", "sequence", "created_at")}
        said = {"sender_id": self.user_id, "content": pending.content, "content_type": "text/plain"}
        await self._arrived(pending.chat_id, [{**own, **said}])

    async def _refused(self, frame: dict[str, Any]) -> None:
        self.errors.append(frame)
        client_message_id, chat_id = frame.get("client_message_id"), frame.get("chat_id")
        if client_message_id in self._unacknowledged:
            if frame["retryable"]:
                self._start(self._later(self._send_message, client_message_id, frame.get("retry_after", 0.5)))
                return
            pending = self._unacknowledged.pop(client_message_id)
            if not pending.answer.done():
                pending.answer.set_exception(SendFailed(frame["code"], frame["detail"]))
        elif chat_id in self._syncing:
            self._syncing.discard(chat_id)
            if frame["retryable"]:
                self._start(self._later(self._sync, chat_id, frame.get("retry_after", 0.5)))

    async def _resync(self) -> None:
        for chat_id in list(self._timelines):
            await self._sync(chat_id)

    async def _sync(self, chat_id: str) -> None:
        if chat_id not in self._syncing and self._socket is not None:
            self._syncing.add(chat_id)
            last_seen = self._timelines[chat_id].last_seen
            await self._write({"type": "sync_request", "chat_id": chat_id, "last_acked_sequence": last_seen})

    async def _send_message(self, client_message_id: str) -> None:
        pending = self._unacknowledged.get(client_message_id)
        if pending is not None:
            await self._write(
                {
                    "type": "send_message",
                    "client_message_id": client_message_id,
                    "chat_id": pending.chat_id,
                    "content": pending.content,
                }
            )

    async def _write(self, frame: dict[str, Any]) -> None:
        """What cannot be written now is written again by whoever reconnects."""
        if self._socket is not None:
            with contextlib.suppress(ConnectionClosed):
                await self._socket.send(json.dumps(frame))

    async def _later(self, call: Callable[[str], Awaitable[None]], argument: str, pause: float) -> None:
        await asyncio.sleep(pause * random.uniform(1, 2))  # noqa: S311 - not a secret
        await call(argument)

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
