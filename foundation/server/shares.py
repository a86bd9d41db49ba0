"""Limits the HTTP requests of one client that a process serves at once, so that they do not slow other clients.

A client is a user, or the address of requests without a valid access token. Requests beyond a client's share wait in
the order of arrival, for a bounded time: a store that hangs would hold them for minutes. Beyond a number they are
refused. Refusals are paced, because even they cost others time when a client repeats its requests at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter

from foundation.kernel.addresses import client_of
from foundation.kernel.errors import RateLimited
from foundation.kernel.ids import UserId
from foundation.rest.addresses import ClientAddress
from foundation.rest.authentication import bearer_token
from foundation.rest.handler import Send
from foundation.server.gate import Overcrowded, refuse

WAITING_PER_PLACE = 32
WAIT_SECONDS = 10.0
PAUSE = 1.0
"""Seconds before a refusal is sent, and for which a request that was answered with 429 keeps its place."""

REFUSED = Counter("parley_http_share_refused_total", "Requests refused because too many of one client were waiting.")

Identify = Callable[[str], UserId | None]


@dataclass(frozen=True, slots=True)
class AddressShares:
    """How many requests without a user an address has in progress, except those that `is_exempt` leaves out."""

    share: int
    address_of: ClientAddress
    is_exempt: Callable[[str], bool]


@dataclass(slots=True)
class _Share:
    places: asyncio.Semaphore
    most: int
    requests: int = 0
    """In progress and waiting."""


class UserShares:
    """ASGI middleware. `identify` returns the user of an access token without I/O, or None if it is not valid.

    Requests for `free` paths are not counted: they report the health of the process.
    """

    def __init__(
        self,
        application: Callable[..., Awaitable[None]],
        *,
        identify: Identify,
        share: int,
        addresses: AddressShares | None = None,
        free: Collection[str] = (),
        wait: float = WAIT_SECONDS,
        pause: float = PAUSE,
    ) -> None:
        self._application = application
        self._identify = identify
        self._share = share
        self._addresses = addresses
        self._free = frozenset(free)
        self._wait = wait
        self._pause = pause
        self._shares: dict[str, _Share] = {}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        client, most = self._find_client(scope)
        if client is None:
            await self._application(scope, receive, send)
            return
        if (share := self._shares.get(client)) is None:
            share = self._shares[client] = _Share(asyncio.Semaphore(most), most)
        if share.requests >= share.most * (1 + WAITING_PER_PLACE):
            REFUSED.inc()
            await asyncio.sleep(self._pause)
            await refuse(send, RateLimited("Too many requests at once", retry_after=self._pause))
            return
        await self._serve(client, share, scope, receive, send)

    async def _serve(self, client: str, share: _Share, scope: dict[str, Any], receive: Any, send: Send) -> None:
        status = 0

        async def noting_status(event: dict[str, Any]) -> None:
            nonlocal status
            status = event.get("status", status)
            await send(event)

        share.requests += 1
        try:
            await self._take_place(share)
        except TimeoutError:
            self._leave(client, share)
            REFUSED.inc()
            await refuse(send, Overcrowded("Earlier requests of yours still wait", retry_after=self._pause))
            return
        except BaseException:
            self._leave(client, share)
            raise
        try:
            await self._application(scope, receive, noting_status)
        finally:
            if status == 429:
                asyncio.get_running_loop().call_later(self._pause, self._release, client, share)
            else:
                self._release(client, share)

    async def _take_place(self, share: _Share) -> None:
        """Raises `TimeoutError`."""
        if not share.places.locked():
            await share.places.acquire()
            return
        async with asyncio.timeout(self._wait):
            await share.places.acquire()

    def _release(self, client: str, share: _Share) -> None:
        share.places.release()
        self._leave(client, share)

    def _leave(self, client: str, share: _Share) -> None:
        share.requests -= 1
        if share.requests == 0:
            del self._shares[client]

    def _find_client(self, scope: dict[str, Any]) -> tuple[str | None, int]:
        """Whose share a request takes, if any, and the share."""
        if scope["path"] in self._free:
            return None, 0
        if (user_id := self._find_user(scope)) is not None:
            return user_id, self._share
        if self._addresses is None:
            return None, 0
        address = self._addresses.address_of.of_scope(scope)
        return None if self._addresses.is_exempt(address) else client_of(address), self._addresses.share

    def _find_user(self, scope: dict[str, Any]) -> UserId | None:
        for name, value in scope["headers"]:
            if name == b"authorization":
                token = bearer_token(value.decode("latin-1"))
                return None if token is None else self._identify(token)
        return None
