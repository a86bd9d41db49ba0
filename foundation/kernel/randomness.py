"""Random bytes for ids and tokens, fetched from the operating system many at a time.

Each fetch lets go of the interpreter's lock, and in a busy process getting it back takes milliseconds: asking once per
id would cost more than everything else that is done for a message (measured, docs/performance.md).
"""

import os

SIZE = 16
AT_ONCE = 256


class Randomness:
    """Hands out 16 bytes at a time, each to one caller only. Thread-safe: a list's `pop` is atomic."""

    def __init__(self) -> None:
        self._unused: list[bytes] = []
        os.register_at_fork(after_in_child=self._unused.clear)

    def take(self) -> bytes:
        while True:
            try:
                return self._unused.pop()
            except IndexError:
                fresh = os.urandom(SIZE * AT_ONCE)
                self._unused += [fresh[place : place + SIZE] for place in range(0, len(fresh), SIZE)]
