"""Kafka: the log of what happened.

The producer is idempotent and waits for all in-sync replicas; `publish` returns only when every event of the batch is
in the log. The consumer commits what it was told is done, and nothing else.
"""

from foundation.stores.kafka.admin import EventLogAdmin
from foundation.stores.kafka.consumer import EventConsumer, Record
from foundation.stores.kafka.handing import Gathering, Outgoing, Refused, Told
from foundation.stores.kafka.options import KafkaOptions
from foundation.stores.kafka.producer import EventProducer

__all__ = [
    "EventConsumer",
    "EventLogAdmin",
    "EventProducer",
    "Gathering",
    "KafkaOptions",
    "Outgoing",
    "Record",
    "Refused",
    "Told",
]
