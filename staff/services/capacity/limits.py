"""What gives way first: what a plan needs beside what one of a kind can do."""

from dataclasses import dataclass

from staff.services.capacity.plan import TRANSACTION, Plan

NOTABLE = 0.5
"""Share of a limit from which on it must be dealt with."""


@dataclass(frozen=True, slots=True)
class Limit:
    """`then`: what to do when `need` comes near `most`."""

    name: str
    need: float
    most: float
    unit: str
    then: str

    @property
    def share(self) -> float:
        return self.need / self.most


def list_limits(plan: Plan) -> list[Limit]:
    """The one that is used most comes first."""
    limits = (
        Limit(
            "the partition of the hottest chat",
            plan.demand.hottest * TRANSACTION,
            1_000,
            "write units/s",
            "split the chat's log over several partition keys, by ranges of sequences",
        ),
        Limit(
            "one Redis server",
            plan.redis_commands,
            100_000,
            "commands/s",
            "Redis Cluster: routing by user and slot, sharded channels for deliveries",
        ),
        Limit(
            "DynamoDB's quota for a table",
            plan.messages * TRANSACTION,
            40_000,
            "write units/s",
            "ask AWS for a higher quota, and warm the tables up before",
        ),
        Limit(
            "the list of homes",
            2.0 * plan.webs**2,
            500_000,
            "names read/s",
            "cells: each with its own web, fanout, Redis and Kafka for a part of the chats",
        ),
        Limit(
            "one Kafka cluster",
            float(plan.brokers),
            30,
            "brokers",
            "larger brokers, then cells",
        ),
    )
    return sorted(limits, key=lambda limit: -limit.share)
