"""Test doubles that make one part fail."""

from collections.abc import Sequence

from foundation.stores.kafka import EventProducer, OnDelivered, Outgoing


class LosingProducer(EventProducer):
    """Reports events as delivered and publishes none."""

    def __init__(self) -> None:
        """Connects to nothing."""

    def publish(self, batch: Sequence[Outgoing], *, on_delivered: OnDelivered, timeout: float | None = None) -> None:
        on_delivered(range(len(batch)), None)
