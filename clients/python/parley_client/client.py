"""The client: ordered chats, safe sends, folded logs and marks over one connection."""

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any

from parley_client.connection import Connection, Frame, Target, Token, Url
from parley_client.log import ChatLog, Entry, Read, kind_of
from parley_client.marks import Mark, Marks
from parley_client.outbox import Outbox, retry_delay
from parley_client.own_marks import ACK, READ, OwnMarks
from parley_client.rest import base_of, request
from parley_client.timeline import Timeline
from parley_client.unread import Unread

log = logging.getLogger(__name__)

KEPT_FRAMES = 1_000
FLUSH_INTERVAL = 0.2  # seconds
PAGE = 100
SYNC_RETRY = 1.0  # seconds


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
        self._target = Target(url, token, first_pause, longest_pause)
        self._connection = Connection(self._target, self)
        self.connected = self._connection.connected
        self._acknowledge = acknowledge
        self._timelines: dict[str, Timeline] = {}
        self._logs: dict[str, ChatLog] = {}
        self._opened: set[str] = set()
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._syncing: set[str] = set()
        self._own_marks = OwnMarks(self._connection.write)
        self._with_receipts: set[str] = set()
        self._watched: dict[str, Sequence[str]] = {}
        self._outbox = Outbox(self._connection.write)
        self._unread = Unread()
        self._tasks: set[asyncio.Task[None]] = set()
        self.user_id = ""
        self.marks = Marks(time.monotonic)
        self.notices: deque[Frame] = deque(maxlen=KEPT_FRAMES)
        self.errors: deque[Frame] = deque(maxlen=KEPT_FRAMES)

    async def __aenter__(self) -> "Client":
        self._spawn(self._run())
        self._spawn(self._flush_marks_periodically())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._flush_marks()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connection.close()

    @property
    def connections(self) -> int:
        """How many connections there have been."""
        return self._connection.connections

    @property
    def closed_with(self) -> int | None:
        return self._connection.closed_with

    def reconnect(self) -> None:
        """Abort the connection without a closing handshake, as a network change does, and connect again."""
        self._connection.abort()

    # Reading

    def follow(self, chat_id: str, *, last_seen: int = 0) -> Timeline:
        """Deliver a chat's entries after `last_seen`: stored ones are fetched, new ones are pushed."""
        timeline = self._timelines.setdefault(chat_id, Timeline(last_seen=last_seen))
        if self.connected.is_set():
            self._spawn(self._sync(chat_id))
        return timeline

    async def open(self, chat_id: str, *, limit: int = PAGE) -> ChatLog:
        """Read the newest entries and the pins, follow the chat from there and keep its log. Raises `RequestFailed`.

        A chat that is open already is not read again: a page ahead of its log would leave a gap. Calls for one chat
        wait for each other.
        """
        async with self._opening[chat_id]:
            if chat_id not in self._opened:
                await self._read_log(chat_id, limit)
                self._opened.add(chat_id)
        return self._logs[chat_id]

    async def _read_log(self, chat_id: str, limit: int) -> None:
        log = self._logs[chat_id] = ChatLog()
        path = f"/api/chats/{chat_id}/pins"
        try:
            await self._load_page(log, chat_id, limit=limit)
            self.follow(chat_id, last_seen=log.last)
            await self._load(log, path, {}, lambda read, answer: log.end_pins(read, answer["items"]))
        except BaseException:
            # Entries that were pushed meanwhile are no whole log: the next call reads it.
            del self._logs[chat_id]
            raise

    async def load_older(self, chat_id: str, *, limit: int = PAGE) -> bool:
        """Read the page before the oldest entry of an open chat. Returns whether there is more."""
        log = self._logs[chat_id]
        return await self._load_page(log, chat_id, limit=limit, before_sequence=log.first)

    async def messages(self) -> AsyncIterator[Entry]:
        """Yield the messages of all chats; each chat in order, without gaps. Raises `Ended`."""
        async for entry in self.entries():
            if kind_of(entry) == "message":
                yield entry

    async def entries(self) -> AsyncIterator[Entry]:
        """Yield the entries of every kind, in place of `messages`. Raises `Ended`."""
        while True:
            yield await self._next()

    async def read(self, count: int, *, within: float = 20.0) -> list[Entry]:
        """Return the next `count` messages. Raises `Ended`, and `TimeoutError` after `within` seconds."""
        found: list[Entry] = []
        async with asyncio.timeout(within):
            while len(found) < count:
                entry = await self._next()
                if kind_of(entry) == "message":
                    found.append(entry)
        return found

    async def _next(self) -> Entry:
        await self._resume()
        return await self._unread.take()

    async def request(self, method: str, path: str, *, query: dict[str, Any] | None = None, body: Any = None) -> Any:
        """Call the REST API with this client's token. Raises `RequestFailed`, and `OSError` without an answer."""
        token = await self._target.get_token()
        return await request(base_of(self._target.pick_url()), method, path, token=token, query=query, body=body)

    async def _load_page(self, log: ChatLog, chat_id: str, **query: int) -> bool:
        path = f"/api/chats/{chat_id}/messages"
        page = await self._load(log, path, query, lambda read, answer: log.end_page(read, answer["messages"]))
        return bool(page["has_more"])

    async def _load(self, log: ChatLog, path: str, query: dict[str, int], end: Callable[[Read, Any], bool]) -> Any:
        while True:
            read = log.begin_read()
            try:
                answer = await self.request("GET", path, query=query)
                if end(read, answer):
                    return answer
            finally:
                log.cancel_read(read)

    # Writing

    async def send(
        self,
        chat_id: str,
        content: str,
        *,
        reply_to: int | None = None,
        mentions: Sequence[str] = (),
        client_message_id: str | None = None,
    ) -> Frame:
        """Send, resend after each reconnect, and return the server's `ack`. Raises `SendFailed` and `Ended`."""
        fields = {"content": content, "reply_to": reply_to, "mentions": list(mentions)}
        return await self._outbox.post("send_message", chat_id, fields, client_message_id=client_message_id)

    async def edit(self, chat_id: str, target: int, content: str, *, mentions: Sequence[str] = ()) -> Frame:
        """Replace the text of an own message; answers and raises as `send`."""
        fields = {"target": target, "content": content, "mentions": list(mentions)}
        return await self._outbox.post("edit_message", chat_id, fields)

    async def delete(self, chat_id: str, target: int) -> Frame:
        """Delete a message; answers and raises as `send`."""
        return await self._outbox.post("delete_message", chat_id, {"target": target})

    async def react(self, chat_id: str, target: int, emoji: str, *, action: str = "add") -> Frame:
        """Add or remove a reaction. The ack's `sequence` is None where nothing changes."""
        return await self._outbox.post("react", chat_id, {"target": target, "emoji": emoji, "action": action})

    async def pin(self, chat_id: str, target: int, *, action: str = "add") -> Frame:
        """Add or remove a pin. The ack's `sequence` is None where nothing changes."""
        return await self._outbox.post("pin", chat_id, {"target": target, "action": action})

    # Marks

    def mark_read(self, chat_id: str, sequence: int) -> None:
        """The person has seen everything up to `sequence`. Calls are coalesced."""
        self._own_marks.move(READ, chat_id, sequence)

    async def load_receipts(self, chat_id: str) -> None:
        """Read every member's marks into `marks`, and again after each reconnect and `resync`.

        Between those, what moves arrives by itself in chats of at most 100 members.
        """
        before, items = dict(self.marks.receipts(chat_id)), list[dict[str, Any]]()
        query: dict[str, Any] = {"limit": 200}
        while query.get("cursor", "first") is not None:
            page = await self.request("GET", f"/api/chats/{chat_id}/receipts", query=query)
            items += page["items"]
            query["cursor"] = page["next_cursor"]
        self.marks.add_receipts(chat_id, items)
        self.marks.hide_reads(chat_id, items, before)
        self._with_receipts.add(chat_id)

    async def set_typing(self, chat_id: str, *, active: bool) -> None:
        await self._connection.write({"type": "typing", "chat_id": chat_id, "active": active})

    async def watch_presence(self, chat_id: str, user_ids: Sequence[str]) -> None:
        """Get the presence of these members of the chat in `marks.presence`, in place of an earlier list."""
        self._watched[chat_id] = list(user_ids)
        await self._connection.write({"type": "watch_presence", "chat_id": chat_id, "user_ids": list(user_ids)})

    async def set_privacy(self, **switches: bool) -> Any:
        """Set `read_receipts` and `show_presence`; returns the user."""
        return await self.request("PATCH", "/api/users/me", body=switches)

    async def _reload_receipts(self) -> None:
        for chat_id in list(self._with_receipts):
            try:
                await self.load_receipts(chat_id)
            except Exception as error:  # noqa: BLE001 - any failure, also of the token callable: the next time reads it
                log.info("receipts are not read: %r", error)

    def _stored_marks(self, chat_id: str) -> Mark:
        return self.marks.receipts(chat_id).get(self.user_id, Mark())

    async def _flush_marks_periodically(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_INTERVAL)
            await self._flush_marks()

    async def _flush_marks(self) -> None:
        """Coalesce: one frame per chat, mark and interval, because the server rate-limits frames."""
        if self._connection.is_open:
            await self._own_marks.flush()

    # Connection

    async def _run(self) -> None:
        ended = await self._connection.run()
        self._outbox.end(ended)
        self._unread.end(ended)

    async def on_open(self, hello: Frame) -> None:
        self.user_id = hello["user_id"]
        await self._sync_all()
        await self._outbox.resend()
        for chat_id, user_ids in list(self._watched.items()):
            await self.watch_presence(chat_id, user_ids)
        self._own_marks.repeat(self._stored_marks)
        self._spawn(self._reload_receipts())

    def on_lost(self) -> None:
        self._syncing.clear()
        self.marks.clear_live()

    async def on_frame(self, frame: Frame) -> None:
        match frame["type"]:
            case "message":
                entry = {name: value for name, value in frame.items() if name != "type"}
                await self._deliver(frame["chat_id"], [entry])
            case "message_batch":
                await self._deliver(frame["chat_id"], frame["messages"])
            case "sync_batch":
                await self._on_sync_batch(frame)
            case "ack":
                await self._on_ack(frame)
            case "error":
                self.errors.append(frame)
                self._own_marks.on_error(frame)
                self._spawn(self._on_error(frame))
            case "resync":
                await self._sync_all()
                self._spawn(self._reload_receipts())
            case "chat_created":
                self.notices.append(frame)
                self.follow(frame["chat_id"])
            case "membership_changed":
                self.notices.append(frame)
            case "receipts":
                self.marks.add_receipts(frame["chat_id"], frame["marks"])
            case "typing":
                self.marks.on_typing(frame["chat_id"], frame["user_id"], active=frame["active"])
            case "presence":
                self.marks.presence[frame["user_id"]] = {name: frame[name] for name in frame if name != "type"}

    async def _deliver(self, chat_id: str, entries: Iterable[Entry]) -> None:
        timeline = self._timelines.setdefault(chat_id, Timeline())
        ready = timeline.take(entries)
        for entry in ready:
            if (log := self._logs.get(chat_id)) is not None:
                log.apply(entry)
        self._unread.put(chat_id, ready)
        if ready and self._acknowledge:
            self._own_marks.move(ACK, chat_id, timeline.last_seen)
        if timeline.has_gap:
            await self._sync(chat_id)

    async def _on_sync_batch(self, frame: Frame) -> None:
        """Sync on while that brings entries; otherwise wait, so that an incomplete answer starts no busy loop."""
        chat_id = frame["chat_id"]
        timeline = self._timelines.setdefault(chat_id, Timeline())
        before = timeline.next, self._unread.position(chat_id)
        await self._deliver(chat_id, frame["messages"])
        self._unread.put_again(chat_id, frame["messages"], last_seen=timeline.last_seen)
        is_behind = frame["has_more"] or timeline.has_gap or chat_id in self._unread.resumable()
        if is_behind and before == (timeline.next, self._unread.position(chat_id)):
            self._spawn(self._sync_after(chat_id, SYNC_RETRY))
            return
        self._syncing.discard(chat_id)
        if is_behind:
            await self._sync(chat_id)
        await self._resume()

    async def _on_ack(self, frame: Frame) -> None:
        entry = self._outbox.on_ack(frame, user_id=self.user_id)
        if entry is None:
            return
        if entry["kind"] == "message" and self._acknowledge:
            self.mark_read(entry["chat_id"], entry["sequence"])
        await self._deliver(entry["chat_id"], [entry])

    async def _on_error(self, frame: Frame) -> None:
        chat_id = frame.get("chat_id", "")
        if await self._outbox.on_error(frame) or chat_id not in self._syncing:
            return
        self._syncing.discard(chat_id)
        if frame["retryable"]:
            await self._sync_after(chat_id, retry_delay(frame))
        else:
            self._unread.give_up(chat_id)
            await self._resume()

    async def _resume(self) -> None:
        """Sync chats whose entries did not fit, when the reader has made room."""
        for chat_id in self._unread.resumable():
            await self._sync(chat_id)

    async def _sync_all(self) -> None:
        for chat_id in list(self._timelines):
            await self._sync(chat_id)

    async def _sync_after(self, chat_id: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._syncing.discard(chat_id)
        await self._sync(chat_id)

    async def _sync(self, chat_id: str) -> None:
        if chat_id not in self._syncing and self._connection.is_open:
            self._syncing.add(chat_id)
            last_seen = self._unread.first_missing_after(chat_id, self._timelines[chat_id].last_seen)
            frame = {"type": "sync_request", "chat_id": chat_id, "last_acked_sequence": last_seen}
            await self._connection.write(frame)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
