"""What a test puts in the place of a part to make it fail in one way."""

from collections.abc import Sequence
from concurrent.futures import Future

from config.stores.announcer import Announcer
from config.stores.kafka import Outgoing


class SilentAnnouncer(Announcer):
    """Says that Kafka holds what it never gave it."""

    def __init__(self) -> None:
        """Needs no producer."""

    def announcing(self, batch: Sequence[Outgoing], *, timeout: float | None = None) -> "Future[None]":
        done: Future[None] = Future()
        done.set_result(None)
        return done
