"""The syncs of a user's connections: a few are read at a time, so that those of one user keep nobody else waiting."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from foundation.kernel.ids import UserId

MAX_SYNCS_OF_A_USER = 16

Start = Callable[[], "asyncio.Future[Any] | None"]
"""Begins to read; None if there is nothing to read any more."""


@dataclass(slots=True)
class _Turns:
    waiting: deque[Start] = field(default_factory=deque)
    under_way: int = 0


class SyncTurns:
    """For one event loop. Those of a user start in the order in which they were added."""

    def __init__(self) -> None:
        self._users: dict[UserId, _Turns] = {}

    def add(self, user_id: UserId, start: Start) -> None:
        turns = self._users.setdefault(user_id, _Turns())
        turns.waiting.append(start)
        self._advance(user_id, turns)

    def _advance(self, user_id: UserId, turns: _Turns) -> None:
        while turns.waiting and turns.under_way < MAX_SYNCS_OF_A_USER:
            if (reading := turns.waiting.popleft()()) is not None:
                turns.under_way += 1
                reading.add_done_callback(lambda _: self._done(user_id, turns))
        if not turns.under_way and not turns.waiting:
            self._users.pop(user_id, None)

    def _done(self, user_id: UserId, turns: _Turns) -> None:
        turns.under_way -= 1
        self._advance(user_id, turns)
