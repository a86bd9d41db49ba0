"""The watch requests of one connection: one is read at a time, within a budget, and the newest list of a chat counts.

A watch costs the store a strongly consistent read of each member it names.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from delivery.gateway.presence import MAX_WATCHED
from foundation.kernel.errors import Invalid, Overloaded, ParleyError
from foundation.kernel.ids import ChatId, ConnectionId, UserId
from foundation.stores.redis import limits
from foundation.stores.redis.limits import Limit, LocalRateLimiter

log = logging.getLogger(__name__)

# In users. Enough for a client that connects again and watches some thirty chats and a large group, twice.
BUDGET = Limit("watched", rate=40.0, burst=400)
USER_BUDGET = Limit("watched-by-user", rate=4 * BUDGET.rate, burst=4 * BUDGET.burst)
MAX_WAITING = 100

Watch = Callable[[ChatId, Collection[UserId]], Awaitable[None]]
TakeBudget = Callable[[int], float]
"""Takes this many users from the budgets, or returns the seconds until it can."""


class WatchBudgets:
    """How many users connections may watch anew: each, and all of a user together. For one event loop."""

    def __init__(self) -> None:
        self._limiter = LocalRateLimiter()

    def of(self, connection_id: ConnectionId, user_id: UserId) -> TakeBudget:
        def charge(count: int) -> float:
            charges = [limits.Charge(BUDGET, connection_id, count), limits.Charge(USER_BUDGET, user_id, count)]
            return self._limiter.take_all(charges).retry_after

        return charge


class WatchQueue:
    """For the event loop. A list that is beyond the budget waits; it is not refused."""

    def __init__(self, watch: Watch, *, charge: TakeBudget, on_error: Callable[[ParleyError, ChatId], None]) -> None:
        self._watch = watch
        self._charge = charge
        self._on_error = on_error
        self._waiting: dict[ChatId, Collection[UserId]] = {}
        self._task: asyncio.Task[None] | None = None

    def put(self, chat_id: ChatId, user_ids: Collection[UserId]) -> None:
        """Serve this list in its turn, in place of one of the same chat that waits.

        Raises `Invalid` for a list that is too long, `Overloaded` when the lists of too many chats wait.
        """
        wanted = frozenset(user_ids)
        if len(wanted) > MAX_WATCHED:
            raise Invalid(f"A connection watches at most {MAX_WATCHED} users")
        if chat_id not in self._waiting and len(self._waiting) >= MAX_WAITING:
            raise Overloaded("Too many lists of watched users wait", retry_after=1.0)
        self._waiting[chat_id] = wanted
        if self._task is None:
            self._task = asyncio.ensure_future(self._serve())

    def close(self) -> None:
        """Start nothing more."""
        self._waiting.clear()

    async def _serve(self) -> None:
        while self._waiting:
            chat_id, user_ids = next(iter(self._waiting.items()))
            # The end of a watch is free.
            pause = self._charge(len(user_ids)) if user_ids else 0.0
            if pause:
                await asyncio.sleep(pause)
                continue  # the list may have been replaced
            del self._waiting[chat_id]
            try:
                await self._watch(chat_id, user_ids)
            except ParleyError as error:
                self._on_error(error, chat_id)
            except Exception:
                log.exception("presence is not watched")
                self._on_error(ParleyError(), chat_id)
        self._task = None
