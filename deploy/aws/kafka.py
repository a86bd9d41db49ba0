"""The policies of each kind of process at an MSK cluster with IAM: what its clients of Kafka ask for, and nothing else.

They name the cluster by its name, so that they exist before it does.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

from deploy.aws.names import Resources, allow, policy, sub
from foundation.kernel.events import TOPICS

FANOUT_GROUP = "fanout"
ANY = "*"


class KafkaUse(StrEnum):
    """What a process does with the topics, by the client in `foundation.stores.kafka` that does it."""

    PUBLISH = "EventProducer"
    CONSUME = "EventConsumer"
    READ = "LogReader"
    """The log beside the consumer groups."""
    SETTINGS = "EventLogAdmin.settings"
    LAG = "ConsumerGroup.progress"
    MOVE = "ConsumerGroup.move"
    CREATE = "EventLogAdmin.create_topics"


USES: Mapping[str, Collection[KafkaUse]] = {
    # The pages of staff are served by `web`: consumer lag, and the check and repair of a chat.
    "Web": (KafkaUse.PUBLISH, KafkaUse.READ, KafkaUse.SETTINGS, KafkaUse.LAG),
    "Fanout": (KafkaUse.CONSUME, KafkaUse.SETTINGS),
    "Watch": (KafkaUse.PUBLISH, KafkaUse.READ, KafkaUse.SETTINGS),
    "Staff": (KafkaUse.PUBLISH, KafkaUse.READ, KafkaUse.SETTINGS, KafkaUse.LAG, KafkaUse.MOVE),
    "Migrator": (KafkaUse.CREATE,),
}
ON_TOPICS: Mapping[KafkaUse, tuple[str, ...]] = {
    KafkaUse.PUBLISH: ("WriteData",),
    KafkaUse.CONSUME: ("ReadData",),
    KafkaUse.READ: ("ReadData",),
    KafkaUse.SETTINGS: ("DescribeTopicDynamicConfiguration",),
    KafkaUse.MOVE: ("ReadData",),
    KafkaUse.CREATE: ("CreateTopic",),
}
ON_GROUPS: Mapping[KafkaUse, tuple[str, tuple[str, ...]]] = {
    KafkaUse.CONSUME: (FANOUT_GROUP, ("AlterGroup", "DescribeGroup")),
    # It joins no group, but the client library looks for the coordinator of one.
    KafkaUse.READ: ("parley-reader", ("DescribeGroup",)),
    KafkaUse.LAG: (FANOUT_GROUP, ("DescribeGroup",)),
    KafkaUse.MOVE: (ANY, ("AlterGroup", "DescribeGroup")),
}


def kafka_policies() -> Resources:
    return {
        f"{process}KafkaPolicy": policy(f"{process.lower()}: its topics", _statements(uses))
        for process, uses in USES.items()
    }


def _statements(uses: Collection[KafkaUse]) -> list[dict[str, Any]]:
    cluster = {"Connect", "DescribeCluster"} | ({"WriteDataIdempotently"} if KafkaUse.PUBLISH in uses else set())
    topics = {"DescribeTopic"}.union(*(ON_TOPICS.get(use, ()) for use in uses))
    groups: dict[str, set[str]] = {}
    for use in uses:
        if use in ON_GROUPS:
            group, actions = ON_GROUPS[use]
            groups.setdefault(group, set()).update(actions)
    return [
        allow(_named(cluster), _arn("cluster", ANY)),
        allow(_named(topics), [_arn("topic", f"*/{topic}") for topic in TOPICS]),
        *(allow(_named(groups[group]), _arn("group", f"*/{group}")) for group in sorted(groups)),
    ]


def _named(actions: Collection[str]) -> list[str]:
    return [f"kafka-cluster:{action}" for action in sorted(actions)]


def _arn(kind: str, rest: str) -> dict[str, str]:
    """`…:topic/NAME/UUID/TOPIC`; the cluster's UUID is not known before it exists."""
    return sub(
        f"arn:${{AWS::Partition}}:kafka:${{AWS::Region}}:${{AWS::AccountId}}:{kind}/${{KafkaClusterName}}/{rest}"
    )
