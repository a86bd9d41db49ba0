"""Reads a chat: pages in either direction, single entries, and entries by place for the inbox.

Every read is strongly consistent and checks the reader's membership. Sequences are dense, so a page's first and last
sequence are known before it is read, and overlapping pages are read as one. Messages are shown as they stand, edits
with the text of their targets.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from chats.errors import ChatNotFound
from chats.services.posting import Posting
from foundation.kernel.ids import ChatId, UserId, is_chat_id
from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb import AsyncDatabase
from foundation.stores.errors import StoreUnavailable
from messaging.domain import MAX_PAGE, SHOWN_REACTORS, Message
from messaging.errors import MessageNotFound
from messaging.services.group_reader import GroupReader
from messaging.stores.messages import EntryKey, MessageStore

log = logging.getLogger(__name__)

CONCURRENT_READS = 8
# A span is read again while a transaction that the counter shows is not wholly visible.
SPAN_RETRY = RetryPolicy(attempts=4, first_pause=0.005, longest_pause=0.05)
# A page ends here, or at `MAX_PAGE` entries.
MAX_PAGE_BYTES = 512 * 1024
# Characters of a user id in a list.
LISTED_ID = 34
READ_TIMEOUT = 20.0
# Two full pages: with the largest messages still one page of DynamoDB's.
MAX_SPAN = 2 * MAX_PAGE
# Different windows in one group read, and of one user's among them. Whoever asks for the same window shares it.
MAX_WINDOWS = 32
MAX_WINDOWS_OF_A_USER = 4
# Pages with more characters than this are encoded in a thread. A character takes at most six bytes of JSON, so smaller
# ones are within `MAX_PAGE_BYTES`.
LARGE_PAGE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Window:
    """What part of a chat to read: behind `after`, oldest first; or before `before`, newest first; or the newest."""

    after: int | None = None
    before: int | None = None
    limit: int = MAX_PAGE

    @property
    def newest_first(self) -> bool:
        return self.after is None

    def bounds(self, latest: int) -> tuple[int, int]:
        """First and last sequence, both included, of a chat that ends at `latest`. Empty when first > last."""
        if self.after is not None:
            return self.after + 1, min(self.after + self.limit, latest)
        last = latest if self.before is None else min(self.before - 1, latest)
        return max(1, last - self.limit + 1), last


@dataclass(frozen=True, eq=False)
class Page:
    """A page, shared by everyone who asked for it at the same time."""

    messages: tuple[Message, ...]
    has_more: bool
    latest_sequence: int

    @property
    def is_large(self) -> bool:
        return sum(_characters(message) for message in self.messages) > LARGE_PAGE

    @property
    def encoded_messages(self) -> bytes:
        """The messages as a JSON list, serialised once.

        Not a `cached_property`: its lock is one for all pages in Python 3.11, and the event loop would wait for it.
        """
        encoded: bytes | None = self.__dict__.get("_encoded")
        if encoded is None:
            # One by one: a thread that encodes yields between them.
            encoded = b"[%b]" % b",".join([orjson.dumps(message.to_json()) for message in self.messages])
            self.__dict__["_encoded"] = encoded
        return encoded


@dataclass(frozen=True, slots=True)
class _Question:
    user_id: UserId
    window: Window


class _Admission:
    """Bounds the work of one group read, and each user's share of it."""

    def __init__(self) -> None:
        self._windows: set[Window] = set()
        self._by_user: Counter[UserId] = Counter()

    def __call__(self, question: _Question) -> bool:
        if question.window in self._windows:
            return True
        if len(self._windows) >= MAX_WINDOWS or self._by_user[question.user_id] >= MAX_WINDOWS_OF_A_USER:
            return False
        self._windows.add(question.window)
        self._by_user[question.user_id] += 1
        return True


class History:
    """Reads chats for their members, on one event loop. Threads enter by `ServiceLoop.run(history.page(…))`."""

    def __init__(self, *, database: AsyncDatabase, messages: MessageStore, posting: Posting) -> None:
        self._database = database
        self._messages = messages
        self._posting = posting
        self._reader = GroupReader(self._read, limit=CONCURRENT_READS, admission=_Admission)

    async def page(self, chat_id: ChatId, user_id: UserId, window: Window) -> Page:
        """Raises `ChatNotFound` for a reader who is not a member."""
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                return await self.ask(chat_id, user_id, window)
        except TimeoutError as error:
            raise StoreUnavailable("The messages could not be read in time") from error

    def ask(self, chat_id: ChatId, user_id: UserId, window: Window) -> "asyncio.Future[Page]":
        """The same as a future."""
        if not is_chat_id(chat_id):
            raise ChatNotFound
        return self._reader.ask(chat_id, _Question(user_id, window))

    async def get_message(self, chat_id: ChatId, user_id: UserId, sequence: int) -> Message:
        """One message, in one request. Raises `ChatNotFound` and `MessageNotFound`."""
        if not is_chat_id(chat_id):
            raise ChatNotFound
        pair, place = (chat_id, user_id), (chat_id, sequence)
        found = await self._database.batch_get(
            {
                **self._posting.membership_lookup([pair]),
                **self._posting.counter_lookup([chat_id]),
                **self._messages.lookup([place]),
            }
        )
        if not (self._posting.members_among(found, [pair]) and self._posting.counters_among(found)):
            raise ChatNotFound
        message = self._messages.found_in(found).get(place)
        if message is None:
            raise MessageNotFound(f"The chat has no message with sequence {sequence}")
        return (await self._messages.filled([message]))[0]

    async def messages_at(self, places: Iterable[EntryKey]) -> dict[EntryKey, Message]:
        """The messages at these places; the caller has checked the membership."""
        return await self._messages.find_at(places)

    async def payloads_between(self, chat_id: str, first: int, last: int) -> list[dict[str, Any]]:
        """The event payloads of these entries, for a fanout worker that missed the events."""
        found = await self._messages.list_between(ChatId(chat_id), first, last)
        return [message.to_json() for message in await self._messages.filled(found)]

    async def close(self) -> None:
        """Finish the reads that were asked for and accept no more."""
        await self._reader.close()

    async def _read(self, chat_id: ChatId, questions: Sequence[_Question]) -> list[Page | Exception]:
        """Answer all questions about a chat: memberships in one batch, overlapping pages in one query."""
        pairs = [(chat_id, question.user_id) for question in questions]
        found = await self._database.batch_get(
            {**self._posting.membership_lookup(pairs), **self._posting.counter_lookup([chat_id])}
        )
        latest = self._posting.counters_among(found).get(chat_id)
        if latest is None:
            return [ChatNotFound() for _ in questions]
        members = {user_id for _, user_id in self._posting.members_among(found, pairs)}
        windows = {question.window for question in questions if question.user_id in members}
        pages = await self._pages(chat_id, windows, latest)
        if large := {window: page for window, page in pages.items() if page.is_large}:
            pages |= await asyncio.to_thread(_bounded, large)
        return [pages[question.window] if question.user_id in members else ChatNotFound() for question in questions]

    async def _pages(self, chat_id: ChatId, windows: Iterable[Window], latest: int) -> dict[Window, Page]:
        pages: dict[Window, Page] = {}
        for newest_first in (False, True):
            same_way = [window for window in windows if window.newest_first is newest_first]
            bounds = [window.bounds(latest) for window in same_way]
            by_sequence: dict[int, Message] = {}
            for first, last in merged(bounds):
                found = await self._span(chat_id, first, last, newest_first=newest_first)
                by_sequence |= {message.sequence: message for message in found}
            for window, (first, last) in zip(same_way, bounds, strict=True):
                sequences = range(last, first - 1, -1) if newest_first else range(first, last + 1)
                messages = tuple(by_sequence[sequence] for sequence in sequences if sequence in by_sequence)
                has_more = first > 1 if newest_first else last < latest
                pages[window] = Page(messages=messages, has_more=has_more, latest_sequence=latest)
        return pages

    async def _span(self, chat_id: ChatId, first: int, last: int, *, newest_first: bool) -> list[Message]:
        """The entries of a span that the counter has passed. A query is no snapshot: one that lacks any is repeated."""
        found: list[Message] = []
        async for _ in SPAN_RETRY.async_tries(asyncio.sleep):
            found = await self._messages.list_between(chat_id, first, last, newest_first=newest_first)
            if len(found) == last - first + 1:
                break
        else:
            log.warning("%s lacks entries between %d and %d", chat_id, first, last)
        return await self._messages.filled(found)


def _characters(message: Message) -> int:
    """About how many characters a message shows, its fixed fields aside."""
    if message.is_plain:
        return len(message.content)
    reactions = (message.reactions or {}).values()
    shown = len(message.mentions) + sum(min(len(user_ids), SHOWN_REACTORS) + 3 for user_ids in reactions)
    return len(message.content) + shown * LISTED_ID


def _bounded(pages: Mapping[Window, Page]) -> dict[Window, Page]:
    """The pages, encoded, each up to where it would take more than `MAX_PAGE_BYTES`."""
    return {window: _up_to_limit(page) for window, page in pages.items()}


def _up_to_limit(page: Page) -> Page:
    encoded: list[bytes] = []
    size = 0
    for message in page.messages:
        encoded.append(orjson.dumps(message.to_json()))
        size += len(encoded[-1])
        if size > MAX_PAGE_BYTES and len(encoded) > 1:
            encoded.pop()
            page = Page(page.messages[: len(encoded)], has_more=True, latest_sequence=page.latest_sequence)
            break
    page.__dict__["_encoded"] = b"[%b]" % b",".join(encoded)
    return page


def merged(bounds: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The fewest spans, none longer than `MAX_SPAN`, that cover all that are not empty."""
    current: tuple[int, int] | None = None
    for first, last in sorted((first, last) for first, last in bounds if first <= last):
        if current is not None and first <= current[1] + 1 and max(last, current[1]) - current[0] < MAX_SPAN:
            current = (current[0], max(last, current[1]))
            continue
        if current is not None:
            yield current
        current = (first, last)
    if current is not None:
        yield current
