"""Strongly consistent checks of sessions: those that are asked for at the same time share a read."""

import asyncio

from accounts.domain import SessionState
from accounts.stores.sessions import SessionStore
from foundation.kernel.clock import Clock
from foundation.kernel.ids import SessionId, UserId

READS_IN_FLIGHT = 4


class SessionStateReader:
    """For one event loop. Nobody shares a read that has begun before the question, so each answer is current.

    Thousands of sockets that reconnect at once cost a request for every fifty of them.
    """

    def __init__(self, sessions: SessionStore, *, clock: Clock) -> None:
        self._sessions = sessions
        self._clock = clock
        self._waiting: dict[SessionId, UserId] = {}
        self._next: asyncio.Task[dict[SessionId, SessionState]] | None = None
        self._reads = asyncio.Semaphore(READS_IN_FLIGHT)

    async def read(self, session_id: SessionId, user_id: UserId) -> SessionState:
        """Raises `StoreUnavailable`."""
        self._waiting[session_id] = user_id
        if self._next is None:
            self._next = asyncio.create_task(self._read_next())
        # Whoever is cancelled leaves the read to the others.
        states = await asyncio.shield(self._next)
        return states[session_id]

    async def _read_next(self) -> dict[SessionId, SessionState]:
        async with self._reads:
            waiting, self._waiting, self._next = self._waiting, {}, None
            return await self._sessions.confirm_states(waiting.items(), now=self._clock.now())
