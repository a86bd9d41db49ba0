"""Bounded retries with full-jitter exponential backoff."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`attempts` in all, with pauses in seconds between them."""

    attempts: int = 5
    first_pause: float = 0.02
    longest_pause: float = 0.5

    def pause(self, attempt: int) -> float:
        """A random pause after the attempt numbered from 0, so that competing clients do not retry in step."""
        return random.uniform(0, min(self.longest_pause, self.first_pause * 2**attempt))  # noqa: S311 - not a secret

    def tries(self, sleep: Callable[[float], object] = time.sleep) -> Iterator[int]:
        """Yield the attempt numbers, pausing between them; end when the attempts are used up."""
        for attempt in range(self.attempts):
            if attempt:
                sleep(self.pause(attempt - 1))
            yield attempt

    async def async_tries(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> AsyncIterator[int]:
        """The same for coroutines."""
        for attempt in range(self.attempts):
            if attempt:
                await sleep(self.pause(attempt - 1))
            yield attempt
