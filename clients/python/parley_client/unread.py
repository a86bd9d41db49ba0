"""The entries that wait for the reader, in bounded memory. Pure but for the waiting."""

import asyncio
from collections.abc import Iterable
from itertools import islice

from parley_client.connection import Ended
from parley_client.log import Entry

MAX_UNREAD = 10_000
RESUMED_AT_ONCE = 4


class Unread:
    """Every chat's entries, each chat in order and without gaps.

    A chat whose entries do not fit is behind: it takes none until the reader has made room. Then it takes the entries
    after its last one again, which a sync brings.
    """

    def __init__(self, capacity: int = MAX_UNREAD) -> None:
        self._capacity = capacity
        self._queue: asyncio.Queue[Entry | Ended] = asyncio.Queue()
        self._behind: dict[str, int] = {}

    def put(self, chat_id: str, entries: Iterable[Entry]) -> None:
        """Add the entries that follow those of earlier calls."""
        for entry in entries:
            if chat_id not in self._behind:
                if self._queue.qsize() < self._capacity:
                    self._queue.put_nowait(entry)
                else:
                    self._behind[chat_id] = entry["sequence"] - 1

    def put_again(self, chat_id: str, entries: Iterable[Entry], *, last_seen: int) -> None:
        """Of entries in order, add those that a chat that is behind has not taken. `last_seen`: what `put` has got."""
        for entry in entries:
            if entry["sequence"] - 1 == self._behind.get(chat_id) and self._queue.qsize() < self._capacity:
                self._queue.put_nowait(entry)
                self._behind[chat_id] = entry["sequence"]
        if self._behind.get(chat_id) == last_seen:
            del self._behind[chat_id]

    def give_up(self, chat_id: str) -> None:
        """The rest of a chat can be read no more."""
        self._behind.pop(chat_id, None)

    def position(self, chat_id: str) -> int | None:
        """The last entry taken of a chat that is behind."""
        return self._behind.get(chat_id)

    def end(self, ended: Ended) -> None:
        self._queue.put_nowait(ended)

    async def take(self) -> Entry:
        """Raises `Ended`."""
        entry = await self._queue.get()
        if isinstance(entry, Ended):
            self._queue.put_nowait(entry)
            raise entry
        return entry

    def first_missing_after(self, chat_id: str, last_seen: int) -> int:
        """From where to sync a chat of which `put` has got everything up to `last_seen`."""
        return self._behind.get(chat_id, last_seen) if self._has_room() else last_seen

    def resumable(self) -> list[str]:
        """Some of the chats that are behind, once there is room for them."""
        return list(islice(self._behind, RESUMED_AT_ONCE)) if self._has_room() else []

    def _has_room(self) -> bool:
        return self._queue.qsize() <= self._capacity // 2
