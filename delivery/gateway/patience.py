"""How much of a misbehaving client a socket puts up with."""

from collections import deque

from foundation.kernel.errors import RateLimited

BAD_FRAMES_IN_A_ROW = 20
FRAMES_PER_SECOND = 300.0
FRAMES_AT_ONCE = 2_000.0
REFUSALS = 1_000
WITHIN = 10.0


class Patience:
    """One per socket. Not thread-safe."""

    def __init__(self) -> None:
        self._bad_frames = 0
        self._tokens = FRAMES_AT_ONCE
        self._at: float | None = None
        self._refusals: deque[float] = deque()

    def require_pace(self, now: float) -> None:
        """Raises `RateLimited` for more frames of any kind than a well-meaning client sends."""
        earlier = now if self._at is None else self._at
        self._tokens = min(FRAMES_AT_ONCE, self._tokens + (now - earlier) * FRAMES_PER_SECOND)
        self._at = now
        if self._tokens < 1:
            raise RateLimited("Too many frames", retry_after=1 / FRAMES_PER_SECOND)
        self._tokens -= 1

    def good_frame(self) -> None:
        self._bad_frames = 0

    def is_out_with_bad_frame(self) -> bool:
        self._bad_frames += 1
        return self._bad_frames >= BAD_FRAMES_IN_A_ROW

    def is_out_with_flood(self, now: float) -> bool:
        """True for a client that has been refused for its pace again and again and goes on."""
        self._refusals.append(now)
        while self._refusals[0] < now - WITHIN:
            self._refusals.popleft()
        return len(self._refusals) > REFUSALS
