"""Metrics of the engines' clients, for `/metrics` and for tests that count requests."""

from prometheus_client import Counter, Gauge, Histogram

DYNAMODB_REQUESTS = Counter(
    "parley_dynamodb_requests_total", "DynamoDB requests by operation and outcome.", ["operation", "outcome"]
)
DYNAMODB_SECONDS = Histogram(
    "parley_dynamodb_request_seconds",
    "Time from sending a DynamoDB request to its answer, retries included.",
    ["operation"],
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)
DYNAMODB_ITEMS = Counter(
    "parley_dynamodb_items_total", "Items read or written, by access pattern.", ["table", "pattern"]
)
KAFKA_EVENTS = Counter(
    "parley_kafka_events_total", "Events handed to Kafka, by topic and outcome.", ["topic", "outcome"]
)
KAFKA_SECONDS = Histogram(
    "parley_kafka_publish_seconds",
    "Time from handing a batch to Kafka to its last delivery report.",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)
LOCALLY_LIMITED_REQUESTS = Counter(
    "parley_locally_limited_requests_total", "Requests whose limits were those of this process, Redis being away."
)
CONSUMER_LAG = Gauge("parley_fanout_lag_events", "Events between this consumer and the end of its partitions.")
EVENTS_SKIPPED = Counter("parley_fanout_skipped_events_total", "Events that could not be read and were skipped.")
FANOUT_RETRIES = Counter(
    "parley_fanout_retries_total",
    "Batches that failed and are retried: an engine was unavailable, or an unexpected error.",
    ["reason"],
)
FANOUT_STALLED = Gauge("parley_fanout_stalled", "Partitions whose next events have failed and wait for a retry.")
