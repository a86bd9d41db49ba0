"""What a test puts in the place of a part to make it fail in one way."""

from collections.abc import Sequence

from foundation.stores.kafka import Outgoing, Told
from foundation.stores.kafka.announcer import Announcer


class SilentAnnouncer(Announcer):
    """Says that Kafka holds what it never gave it."""

    def __init__(self) -> None:
        """Needs no producer."""

    def hand_over(self, batch: Sequence[Outgoing], told: Told, *, timeout: float | None = None) -> None:
        told(range(len(batch)), None)
