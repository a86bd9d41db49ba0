"""ASGI middleware that limits the requests served at once.

When a store is slow, requests would pile up without bound; those beyond the limit are refused at once instead.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from prometheus_client import Counter

from foundation.kernel.errors import ParleyError, Unavailable
from foundation.rest.handler import Send
from foundation.rest.problems import problem

REFUSED = Counter("parley_http_refused_total", "Requests refused because too many were being served.")


class Overcrowded(Unavailable):
    """The process serves too many requests already. Nothing was done."""

    code = "overloaded"
    title = "Too busy, try again shortly"


class Gate:
    """Serves at most `limit` requests. `free` paths are never refused: they report the health of the process."""

    def __init__(self, application: Callable[..., Awaitable[None]], *, limit: int, free: Collection[str] = ()) -> None:
        self._application = application
        self._limit = limit
        self._free = frozenset(free)
        self._inside = 0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        if scope["path"] in self._free:
            await self._application(scope, receive, send)
            return
        if self._inside >= self._limit:
            REFUSED.inc()
            await refuse(send, Overcrowded(retry_after=1.0))
            return
        self._inside += 1
        try:
            await self._application(scope, receive, send)
        finally:
            self._inside -= 1


async def refuse(send: Send, error: ParleyError) -> None:
    """Send the problem of an error."""
    response = problem(error)
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})
