"""Garbage collection for long-running processes."""

import gc

YOUNG_THRESHOLD = 20_000
"""Allocations between two collections of the youngest generation."""


def tune_gc() -> None:
    """Raise the collection threshold and freeze what exists at start-up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD)
