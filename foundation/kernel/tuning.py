"""Garbage collection of a long-running process."""

import gc

YOUNG_THRESHOLD = 20_000


def tune_gc() -> None:
    """Raise the GC threshold and freeze what exists at start-up. Call it once the process is built."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD)
