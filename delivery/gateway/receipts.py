"""Receipts as they happen: marks that this process wrote, once a second and chat, to the online members.

A read mark of who hides it is published as `hidden`: it is for the person's own devices. Where nothing but a read mark
has moved, who may not see it gets nothing: a receipt that tells nothing new would tell that something was read. Whoever
was away reads `GET /api/chats/{chat_id}/receipts`.
"""

import asyncio
import logging
import time
from collections import Counter as Counts
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter

from delivery.domain import Mark, Marks
from delivery.gateway.broadcast import Broadcast, LiveFrame
from delivery.gateway.frames import Frame, shared
from delivery.gateway.sockets import Socket
from delivery.services.privacy import PrivacySettings
from foundation.kernel.errors import Unavailable
from foundation.kernel.ids import ChatId, UserId

log = logging.getLogger(__name__)

DROPPED = Counter(
    "parley_receipts_dropped_total", "Chats whose receipts were not published: too many wait, or settings are not read."
)

INTERVAL = 1.0
TICK = 0.05
SPREAD_TICKS = 8
MIN_CHATS_PER_TICK = 8
"""Of many chats that are due, each tick publishes an eighth: messages do not wait behind the receipts of all."""
MAX_CHATS = 20_000
# Of a chat whose readers' settings cannot be read, one each `INTERVAL`.
MAX_ATTEMPTS = 10
HIDDEN = "hidden"
ONLY_READ = "only_read"
"""Nothing but the read mark has moved."""

Marked = Mapping[str, Any]
"""A member's marks in a frame."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A member's marks. `has_arrived`: more is delivered than before, which everybody may see."""

    marks: Marks
    has_arrived: bool

    def merged(self, other: "Moved") -> "Moved":
        return Moved(self.marks.merged(other.marks), self.has_arrived or other.has_arrived)


class LiveReceipts:
    """Gathers marks and publishes them. For one event loop."""

    def __init__(
        self, broadcast: Broadcast, *, privacy: PrivacySettings, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._broadcast = broadcast
        self._privacy = privacy
        self._monotonic = monotonic
        self._waiting: dict[ChatId, dict[UserId, Moved]] = {}
        self._published: OrderedDict[ChatId, float] = OrderedDict()
        # How often in a row the receipts of a chat could not be published.
        self._failures: Counts[ChatId] = Counts()
        self._publisher: asyncio.Task[None] | None = None

    def note(self, user_id: UserId, chat_id: ChatId, marks: Marks, mark: Mark) -> None:
        """This mark has moved. Bounded: beyond `MAX_CHATS`, receipts are left to be read."""
        other = Mark.READ if mark is Mark.ACKED else Mark.ACKED
        self._wait(chat_id, {user_id: Moved(marks, has_arrived=marks.of(mark) > marks.of(other))})
        if self._publisher is None:
            self._publisher = asyncio.ensure_future(self._publish_while_waiting())

    def _wait(self, chat_id: ChatId, marked: Mapping[UserId, Moved]) -> None:
        if chat_id not in self._waiting and len(self._waiting) >= MAX_CHATS:
            self._failures.pop(chat_id, None)
            DROPPED.inc()
            return
        waiting = self._waiting.setdefault(chat_id, {})
        for user_id, moved in marked.items():
            waiting[user_id] = moved.merged(waiting.get(user_id, moved))

    async def _publish_while_waiting(self) -> None:
        while self._waiting:
            await asyncio.sleep(TICK)
            due = self._take_due()
            try:
                await self._publish(due)
            except Unavailable as error:
                log.info("the receipts of %d chats are not published yet: %s", len(due), error.detail)
                self._retry(due)
            except Exception:
                log.exception("the receipts of %d chats are not published", len(due))
                self._forget_failures(due)
            else:
                self._forget_failures(due)
        self._publisher = None

    def _retry(self, due: Mapping[ChatId, Mapping[UserId, Moved]]) -> None:
        """Let these wait for their next turn, beside what has moved meanwhile, or leave them to be read."""
        for chat_id, marked in due.items():
            self._failures[chat_id] += 1
            if self._failures[chat_id] < MAX_ATTEMPTS:
                self._wait(chat_id, marked)
            else:
                del self._failures[chat_id]
                DROPPED.inc()

    def _forget_failures(self, chat_ids: Iterable[ChatId]) -> None:
        for chat_id in chat_ids if self._failures else ():
            self._failures.pop(chat_id, None)

    def _take_due(self) -> dict[ChatId, dict[UserId, Moved]]:
        now = self._monotonic()
        due = [chat_id for chat_id in self._waiting if self._published.get(chat_id, 0.0) <= now - INTERVAL]
        due = due[: max(MIN_CHATS_PER_TICK, len(due) // SPREAD_TICKS)]
        for chat_id in due:
            self._published.pop(chat_id, None)
            self._published[chat_id] = now
        while len(self._published) > MAX_CHATS:
            self._published.popitem(last=False)
        return {chat_id: self._waiting.pop(chat_id) for chat_id in due}

    async def _publish(self, due: Mapping[ChatId, Mapping[UserId, Moved]]) -> None:
        readers = {user_id for marked in due.values() for user_id, moved in marked.items() if moved.marks.read}
        settings = await self._privacy.of(readers) if readers else {}
        hiding = {user_id for user_id, each in settings.items() if not each.read_receipts}
        await asyncio.gather(
            *[
                self._broadcast.send(
                    LiveFrame(
                        chat_id,
                        {
                            "type": "receipts",
                            "chat_id": chat_id,
                            "marks": [_marked(user_id, moved, user_id in hiding) for user_id, moved in marked.items()],
                        },
                    )
                )
                for chat_id, marked in due.items()
            ]
        )


def _marked(user_id: UserId, moved: Moved, is_hidden: bool) -> Marked:
    marked: dict[str, Any] = {"user_id": user_id, Mark.ACKED.value: moved.marks.delivered}
    if moved.marks.read:
        marked[Mark.READ.value] = moved.marks.read
        if is_hidden:
            marked[HIDDEN] = True
        if not moved.has_arrived:
            marked[ONLY_READ] = True
    return marked


class ReceiptDelivery:
    """Delivers receipts to this gateway's sockets, each as its user may see them. For one event loop."""

    def __init__(self, privacy: PrivacySettings) -> None:
        self._privacy = privacy

    async def deliver(self, frame: dict[str, Any], sockets: Collection[Socket]) -> None:
        marks: list[Marked] = frame["marks"]
        hiding: set[UserId] = set()
        if any(Mark.READ in marked for marked in marks):
            settings = await self._privacy.of({socket.registration.user_id for socket in sockets})
            hiding = {user_id for user_id, each in settings.items() if not each.read_receipts}
        personal = {marked["user_id"] for marked in marks if HIDDEN in marked} | hiding
        everyone = _shown(frame, lambda marked: HIDDEN not in marked)
        for socket in sockets:
            viewer = socket.registration.user_id
            own = _for_viewer(frame, viewer, is_hiding=viewer in hiding) if viewer in personal else everyone
            if own is not None:
                socket.deliver(own)


def _for_viewer(frame: dict[str, Any], viewer: UserId, *, is_hiding: bool) -> Frame | None:
    return _shown(frame, lambda marked: marked["user_id"] == viewer or not (is_hiding or HIDDEN in marked))


def _shown(frame: dict[str, Any], is_read_shown: Callable[[Marked], bool]) -> Frame | None:
    """The frame with the marks that may be seen; None if that is nothing."""
    marks = []
    for marked in frame["marks"]:
        left_out = (HIDDEN, ONLY_READ) if is_read_shown(marked) else (HIDDEN, ONLY_READ, Mark.READ)
        if Mark.READ not in left_out or ONLY_READ not in marked:
            marks.append({name: value for name, value in marked.items() if name not in left_out})
    return shared({**frame, "marks": marks}) if marks else None
