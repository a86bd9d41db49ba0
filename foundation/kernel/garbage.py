"""How a busy process looks for garbage: seldom, and never among what it was built of."""

import gc

YOUNG = 20_000
"""Objects made before the young are searched. Nearly all of them are gone by then without any search."""


def search_seldom() -> None:
    """To be called once a process is built: what there is by now stays until its end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
