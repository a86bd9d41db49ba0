"""Bounds what a client may do wrong before its socket is closed."""

from collections import deque

BAD_FRAMES_IN_A_ROW = 20
MAX_REFUSALS = 1_000
REFUSALS_WINDOW = 10.0


class AbuseLimits:
    """How many bad or refused frames a socket may send before it is closed. The server limits their pace."""

    def __init__(self) -> None:
        self.bad_frames = 0
        """In a row. A good frame sets it to 0."""
        self._refusals: deque[float] = deque()

    def bad_frame(self) -> bool:
        """Count a bad frame; True when there were too many in a row."""
        self.bad_frames += 1
        return self.bad_frames >= BAD_FRAMES_IN_A_ROW

    def refusal(self, now: float) -> bool:
        """Count a refused send; True when there were too many within the window."""
        self._refusals.append(now)
        while self._refusals[0] < now - REFUSALS_WINDOW:
            self._refusals.popleft()
        return len(self._refusals) > MAX_REFUSALS
