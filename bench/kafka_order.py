"""Watches the order of messages in Kafka, as a plain consumer that knows nothing of Parley's processes."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson
from confluent_kafka import Consumer, TopicPartition

from foundation.kernel.events import MESSAGES_PERSISTED

if TYPE_CHECKING:
    from foundation.stores.kafka import KafkaOptions

MAX_RECORDS = 1_000
POLL_SECONDS, TIMEOUT_SECONDS = 0.2, 10.0


@dataclass(slots=True)
class KafkaOrder:
    """The sequences of each chat, in the order of the log. Parsed after the run, so that the watch is cheap."""

    _values: list[bytes] = field(default_factory=list)

    def add(self, value: bytes) -> None:
        self._values.append(value)

    @property
    def out_of_order(self) -> int:
        """First occurrences of messages that come after one with a higher sequence. Repetitions are allowed."""
        by_chat: dict[str, list[int]] = {}
        for value in self._values:
            payload = orjson.loads(value)["payload"]
            by_chat.setdefault(payload["chat_id"], []).append(payload["sequence"])
        return sum(map(count_out_of_order, by_chat.values()))


def count_out_of_order(sequences: Iterable[int]) -> int:
    seen, highest, count = set[int](), 0, 0
    for sequence in sequences:
        if sequence not in seen:
            count += sequence < highest
            seen.add(sequence)
            highest = max(highest, sequence)
    return count


@contextmanager
def watch_order(options: "KafkaOptions") -> Iterator[KafkaOrder]:
    """Read every message that is published in the block; at its end, up to the end of the log."""
    consumer = Consumer({**options.common(), "group.id": "bench-order", "enable.auto.commit": False})
    order, stopped = KafkaOrder(), threading.Event()
    try:
        consumer.assign(_ends(consumer))
        thread = threading.Thread(target=_read, args=(consumer, order, stopped), daemon=True)
        thread.start()
        try:
            yield order
        finally:
            stopped.set()
            thread.join()
    finally:
        consumer.close()


def _ends(consumer: Consumer) -> list[TopicPartition]:
    """The end of each partition as an offset: "the latest" would be looked up only when reading begins."""
    topic = consumer.list_topics(MESSAGES_PERSISTED, timeout=TIMEOUT_SECONDS).topics[MESSAGES_PERSISTED]
    partitions = [TopicPartition(MESSAGES_PERSISTED, number) for number in topic.partitions]
    ends = [consumer.get_watermark_offsets(each, timeout=TIMEOUT_SECONDS)[1] for each in partitions]
    return [TopicPartition(each.topic, each.partition, end) for each, end in zip(partitions, ends, strict=True)]


def _read(consumer: Consumer, order: KafkaOrder, stopped: threading.Event) -> None:
    """Until nothing arrives any more after the stop."""
    while (records := consumer.consume(MAX_RECORDS, timeout=POLL_SECONDS)) or not stopped.is_set():
        for record in records:
            if record.error() is None:
                order.add(record.value() or b"")
