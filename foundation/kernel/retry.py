"""Bounded retries: how often, how long in between, and never in step with others."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`attempts` tries in all, with full-jitter exponential pauses between them."""

    attempts: int = 5
    first_pause: float = 0.02
    longest_pause: float = 0.5

    def pause(self, attempt: int) -> float:
        """How long to wait after the attempt numbered from 0; spread so that rivals do not meet again."""
        return random.uniform(0, min(self.longest_pause, self.first_pause * 2**attempt))  # noqa: S311 - not a secret

    def tries(self, sleep: Callable[[float], None] = time.sleep, *, tried: int = 0) -> Iterator[int]:
        """Yield the attempt numbers, pausing between them; ends when the attempts are used up.

        `tried` of them were made elsewhere, without success.
        """
        for attempt in range(tried, self.attempts):
            if attempt:
                sleep(self.pause(attempt - 1))
            yield attempt
