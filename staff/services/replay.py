"""Replay: let a consumer group start again from an earlier place of the log.

Consumers are idempotent, so a replay repeats work and changes nothing else. A group with members is not moved: they
would go on from where they are, and commit that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from foundation.kernel.errors import Conflict
from foundation.stores.kafka import ConsumerGroup, KafkaOptions, Progress


class GroupHasMembers(Conflict):
    """The consumers of the group are running."""

    code = "group_has_members"
    title = "The group has members: stop its consumers first"


@dataclass(frozen=True, slots=True)
class Move:
    """Where a group is in a partition, and where it is to start."""

    place: Progress
    target: int

    @property
    def repeated(self) -> int:
        """Events that the group will read once more, or for the first time."""
        return self.place.end - self.target

    def to_json(self) -> dict[str, int | str | None]:
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "committed": self.place.committed,
            "target": self.target,
            "end": self.place.end,
            "lag": self.place.lag,
        }


class Replay:
    """Blocking."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options

    def plan(self, group: str, *, topics: Sequence[str], moment: datetime | None) -> list[Move]:
        """Where the group would go: to the first event of this time or later; without a time, to the oldest."""
        client = ConsumerGroup(self._options, group)
        try:
            return [Move(place, client.offset_at(place, moment)) for place in client.progress(topics)]
        finally:
            client.close()

    def run(self, group: str, moves: Sequence[Move]) -> None:
        """Raises `GroupHasMembers`, and `EventLogUnavailable`."""
        client = ConsumerGroup(self._options, group)
        try:
            if members := client.members():
                raise GroupHasMembers(f"{group} has {len(members)} members: stop its consumers, then replay.")
            client.move([(move.place, move.target) for move in moves])
        finally:
            client.close()
