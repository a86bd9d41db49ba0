"""Kafka: the log of events.

The producer is idempotent and waits for all in-sync replicas. The consumer commits only the offsets of records that
were processed.
"""

from foundation.stores.kafka.admin import EventLogAdmin
from foundation.stores.kafka.consumer import EventConsumer, Record
from foundation.stores.kafka.options import KafkaOptions
from foundation.stores.kafka.producer import EventProducer, OnDelivered, Outgoing

__all__ = ["EventConsumer", "EventLogAdmin", "EventProducer", "KafkaOptions", "OnDelivered", "Outgoing", "Record"]
