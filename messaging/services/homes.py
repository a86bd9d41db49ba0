"""Which `web` process is the home of a chat: the one that commits its messages.

The processes keep a list of themselves in Redis; every process finds a chat's home in it by rendezvous hashing, so a
process that comes or goes moves only its own share of the chats. Lists may differ for a moment, or be wrong: then two
processes write to one chat, which the conditions of their transactions sort out, only slower.
"""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from foundation.kernel.ids import ChatId
from foundation.stores.errors import StoreUnavailable
from messaging.services import metrics
from messaging.stores.homes import TTL_SECONDS

log = logging.getLogger(__name__)

LIST_TTL = float(TTL_SECONDS)
"""Seconds after which a process that has not refreshed itself is no longer in the list, nor its copy of it valid."""
REFRESH_EVERY = 0.5
REFRESH_TIMEOUT = 1.0
CACHED_HOMES = 50_000


class Homes:
    """The list as this process knows it, and the home of each chat. For one event loop; no I/O.

    A name is `gateway_id:epoch`. A list without this process, or an expired one, makes nobody a home. A process whose
    list names it alone is the home of every chat (`is_alone`), and stays it until a list names others; one that has
    lost the list of several is the home of none. `is_alone` at first: no other process writes to the chats, list or
    not. That is for processes that are in no list.
    """

    def __init__(self, *, is_alone: bool = True, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.is_alone = is_alone
        self.own: str | None = None
        self._monotonic = monotonic
        self._names: tuple[str, ...] = ()
        self._is_listed = False
        self._valid_until = 0.0
        self._homes: dict[ChatId, str] = {}
        self._listeners: list[Callable[[], None]] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The processes in the list; none when there is no valid list."""
        return self._names if self._monotonic() < self._valid_until else ()

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` after every change of the list."""
        self._listeners.append(on_change)

    def find_home(self, chat_id: ChatId) -> str | None:
        """The name of the chat's home. None when there is no valid list, or this process is not in it."""
        if not self._is_listed or self._monotonic() >= self._valid_until:
            return None
        home = self._homes.get(chat_id)
        if home is None:
            home = max(self._names, key=lambda name: _weight(name, chat_id))
            if len(self._homes) >= CACHED_HOMES:
                self._homes.clear()
            self._homes[chat_id] = home
        return home

    def is_home(self, chat_id: ChatId) -> bool:
        """Whether this process is the chat's home."""
        return self.is_alone or (self._is_listed and self.find_home(chat_id) == self.own)

    def update(self, own: str | None, names: Iterable[str], *, at: float) -> None:
        """Take a list that was asked for at this moment. `own` is this process's name, if it is to be in the list."""
        listed = tuple(sorted(names))
        self._valid_until = at + LIST_TTL
        is_alone = listed == (own,) if own is not None else self.is_alone and not listed
        self._replace(own, listed, is_alone=is_alone)

    def withdraw(self) -> None:
        """This process is no longer to be in the list."""
        self._replace(None, self._names, is_alone=self.is_alone)

    def expire(self) -> None:
        """Drop a list that is too old, because Redis did not give a new one."""
        if self._names and self._monotonic() >= self._valid_until:
            self._replace(self.own, (), is_alone=self.is_alone)

    def _replace(self, own: str | None, names: tuple[str, ...], *, is_alone: bool) -> None:
        if (own, names, is_alone) == (self.own, self._names, self.is_alone):
            return
        self.own, self._names, self.is_alone = own, names, is_alone
        self._is_listed = own in names
        self._homes.clear()
        metrics.HOMES_CHANGES.inc()
        metrics.HOMES.set(len(names))
        for on_change in self._listeners:
            try:
                on_change()
            except Exception:
                log.exception("a change of the list of homes is not followed")


def gateway_of(name: str) -> str:
    """The gateway id of a name in the list."""
    return name.partition(":")[0]


def _weight(name: str, chat_id: ChatId) -> bytes:
    """By the gateway's id alone, so that a new epoch moves no chat."""
    return hashlib.blake2b(f"{gateway_of(name)}|{chat_id}".encode(), digest_size=8).digest()


class HomeList(Protocol):
    """The list in Redis."""

    async def refresh(self, name: str | None, *, former: Iterable[str] = ()) -> list[str]:
        """Enter or refresh a name, remove the former ones, and return the list. Raises `StoreUnavailable`."""
        ...


class HomeRegistration:
    """Keeps this process in the list while it has a name, and `homes` up to date."""

    def __init__(self, homes: Homes, store: HomeList, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._homes = homes
        self._store = store
        self._monotonic = monotonic
        self._name: str | None = None
        self._former: set[str] = set()
        self._is_leaving = False
        self._is_stopped = False
        self._wake_up = asyncio.Event()

    async def run(self) -> None:
        """Refresh until stopped, and at once when the name has changed."""
        while not self._is_stopped:
            self._wake_up.clear()
            await self.refresh()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_EVERY):
                    await self._wake_up.wait()

    def enter(self, name: str) -> None:
        """This process can be reached under a name. Ignored once the process is leaving."""
        if not self._is_leaving:
            self._name = name
            self._wake_up.set()

    def withdraw(self) -> None:
        """This process can no longer be reached under its name."""
        if self._name is not None:
            self._former.add(self._name)
            self._name = None
            self._homes.withdraw()
            self._wake_up.set()

    async def leave(self) -> None:
        """Take this process off the list for good: others find new homes for its chats."""
        self._is_leaving = True
        self.withdraw()
        await self.refresh()

    def stop(self) -> None:
        self._is_stopped = True
        self._wake_up.set()

    async def refresh(self) -> None:
        asked, name, former = self._monotonic(), self._name, set(self._former)
        try:
            async with asyncio.timeout(REFRESH_TIMEOUT):
                names = await self._store.refresh(name, former=former)
        except (StoreUnavailable, TimeoutError) as error:
            log.info("the list of homes is not refreshed: %r", error)
            self._homes.expire()
        except Exception:
            # The process must stay in the list, or another takes over its chats beside it.
            log.exception("the list of homes is not refreshed")
            self._homes.expire()
        else:
            self._former -= former
            if name == self._name:
                self._homes.update(name, names, at=asked)
