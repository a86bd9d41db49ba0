"""What a broker tells of partitions."""

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from foundation.stores.kafka.reader import without_errors


class Refused:
    """A partition that the broker could not tell of. librdkafka alone can set `error`."""

    error = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)


def test_a_partition_with_an_error_is_not_taken_for_an_empty_one() -> None:
    known = TopicPartition("topic", 0, 7)
    assert without_errors([known]) == [known]
    with pytest.raises(KafkaException):
        without_errors([known, Refused()])  # type: ignore[list-item]
