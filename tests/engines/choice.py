"""The engines of this test run, chosen by pytest's option `--engines`."""

from pathlib import Path
from typing import TypeAlias

from engines.dynamodb import DynamoDbEngine
from engines.kafka import KafkaEngine
from foundation.kernel.events import TOPICS
from tests.engines.dynamodb_local import DynamoDbLocal
from tests.engines.kafka import ApacheKafka

EMBEDDED, REAL = "embedded", "real"

AnyKafka: TypeAlias = KafkaEngine | ApacheKafka
AnyDynamoDb: TypeAlias = DynamoDbEngine | DynamoDbLocal

_chosen = EMBEDDED


def choose(engines: str) -> None:
    """Called by pytest's configuration before the first engine is created."""
    global _chosen  # noqa: PLW0603 - one choice for the whole test run
    _chosen = engines


def is_real() -> bool:
    return _chosen == REAL


def make_kafka() -> AnyKafka:
    """One broker with Parley's topics."""
    return ApacheKafka() if is_real() else KafkaEngine(topics=TOPICS)


def make_dynamodb(data_dir: Path | None = None) -> AnyDynamoDb:
    """On disk with a directory, else in memory."""
    return DynamoDbLocal(data_dir=data_dir) if is_real() else DynamoDbEngine(data_dir=data_dir)
