"""Kafka: the log of events.

The producer is idempotent and waits for all in-sync replicas. The consumer commits only the offsets of records that
were processed.
"""

from foundation.stores.kafka.admin import EventLogAdmin
from foundation.stores.kafka.consumer import EventConsumer, Record
from foundation.stores.kafka.groups import ConsumerGroup, Progress
from foundation.stores.kafka.options import KafkaOptions
from foundation.stores.kafka.producer import EventProducer, OnDelivered, Outgoing
from foundation.stores.kafka.reader import LogReader, Span

__all__ = [
    "ConsumerGroup",
    "EventConsumer",
    "EventLogAdmin",
    "EventProducer",
    "KafkaOptions",
    "LogReader",
    "OnDelivered",
    "Outgoing",
    "Progress",
    "Record",
    "Span",
]
