"""Limits the HTTP requests of one user that a process serves at once, so that they do not slow other users.

Requests beyond a user's share wait in the order of arrival; beyond a bound they are refused. Refusals are paced,
because even they cost others time when a client repeats its requests at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter

from foundation.kernel.errors import RateLimited
from foundation.kernel.ids import UserId
from foundation.rest.authentication import bearer_token
from foundation.rest.handler import Send
from foundation.server.gate import refuse

WAITING_PER_PLACE = 32
PAUSE = 1.0
"""Seconds before a refusal is sent, and for which a request that was answered with 429 keeps its place."""

REFUSED = Counter("parley_http_share_refused_total", "Requests refused because too many of one user were waiting.")

Identify = Callable[[str], UserId | None]


@dataclass(slots=True)
class _Share:
    places: asyncio.Semaphore
    requests: int = 0
    """In progress and waiting."""


class UserShares:
    """ASGI middleware. `identify` returns the user of an access token without I/O, or None if it is not valid."""

    def __init__(
        self,
        application: Callable[..., Awaitable[None]],
        *,
        identify: Identify,
        share: int,
        pause: float = PAUSE,
    ) -> None:
        self._application = application
        self._identify = identify
        self._share = share
        self._pause = pause
        self._shares: dict[UserId, _Share] = {}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        user_id = self._find_user(scope)
        if user_id is None:
            await self._application(scope, receive, send)
            return
        share = self._shares.setdefault(user_id, _Share(asyncio.Semaphore(self._share)))
        if share.requests >= self._share * (1 + WAITING_PER_PLACE):
            REFUSED.inc()
            await asyncio.sleep(self._pause)
            await refuse(send, RateLimited("Too many requests at once", retry_after=self._pause))
            return
        await self._serve(user_id, share, scope, receive, send)

    async def _serve(self, user_id: UserId, share: _Share, scope: dict[str, Any], receive: Any, send: Send) -> None:
        status = 0

        async def noting_status(event: dict[str, Any]) -> None:
            nonlocal status
            status = event.get("status", status)
            await send(event)

        share.requests += 1
        try:
            await share.places.acquire()
        except BaseException:
            self._leave(user_id, share)
            raise
        try:
            await self._application(scope, receive, noting_status)
        finally:
            if status == 429:
                asyncio.get_running_loop().call_later(self._pause, self._release, user_id, share)
            else:
                self._release(user_id, share)

    def _release(self, user_id: UserId, share: _Share) -> None:
        share.places.release()
        self._leave(user_id, share)

    def _leave(self, user_id: UserId, share: _Share) -> None:
        share.requests -= 1
        if share.requests == 0:
            del self._shares[user_id]

    def _find_user(self, scope: dict[str, Any]) -> UserId | None:
        for name, value in scope["headers"]:
            if name == b"authorization":
                token = bearer_token(value.decode("latin-1"))
                return None if token is None else self._identify(token)
        return None
