"""Kafka: the log of what happened.

The producer is idempotent and waits for all in-sync replicas; `publish` returns only when every event of the batch is
in the log. The consumer commits what it was told is done, and nothing else.
"""

from config.stores.kafka.admin import EventLogAdmin
from config.stores.kafka.consumer import EventConsumer, Record
from config.stores.kafka.handing import Gathering, Outgoing, Refused, Told
from config.stores.kafka.options import KafkaOptions
from config.stores.kafka.producer import EventProducer

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
