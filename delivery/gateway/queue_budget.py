"""How many bytes of frames wait for connections that do not read: of a user's, and of all of a process."""

from collections import Counter as Tally
from collections.abc import Callable

from prometheus_client import Gauge

from foundation.kernel.ids import UserId

QUEUED = Gauge("parley_gateway_queued_bytes", "Bytes of frames that wait for sockets whose clients do not read.")

MAX_BYTES = 256 * 1024 * 1024
MAX_BYTES_OF_A_USER = 16 * 1024 * 1024
"""What four connections may have. A frame that waits for several counts for each."""

Resize = Callable[[int], bool]
"""Takes the new size of a queue, and returns False if it is too much for the user or the process."""


class QueueBudget:
    """For one event loop."""

    def __init__(self, *, total: int = MAX_BYTES, per_user: int = MAX_BYTES_OF_A_USER) -> None:
        self._total = total
        self._per_user = per_user
        self._held = 0
        self._held_by: Tally[UserId] = Tally()

    def open(self, user_id: UserId) -> Resize:
        """For one queue, which is empty at first and in the end."""
        size = 0

        def resize(new: int) -> bool:
            nonlocal size
            size, added = new, new - size
            self._add(user_id, added)
            return added <= 0 or (self._held <= self._total and self._held_by[user_id] <= self._per_user)

        return resize

    def _add(self, user_id: UserId, added: int) -> None:
        self._held += added
        self._held_by[user_id] += added
        if not self._held_by[user_id]:
            del self._held_by[user_id]
        QUEUED.set(self._held)
