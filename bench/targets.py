"""The headline figures of each workload, with their targets and the best peer's value (docs/performance.md)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Headline:
    """`at_most`: lower is better, and the target is an upper limit. A target of 0 is what no run may have."""

    workload: str
    figure: str
    label: str
    what: str
    target: float | None = None
    peer: Peer | None = None
    at_most: bool = False

    def is_met(self, value: float) -> bool:
        """False without a target."""
        if self.target is None:
            return False
        return value <= self.target if self.at_most else value >= self.target


TINODE = "Tinode + PostgreSQL"
HEADLINES = (
    Headline("W1", "delivered_per_s", "delivered messages/s", "50 pairs, closed loop", 3_400, Peer(TINODE, 2_371)),
    Headline("W2", "accepted_per_s", "accepted messages/s", "group of 50, 10 sending", 1_000, Peer(TINODE, 657)),
    Headline("W2", "deliveries_per_s", "deliveries/s", "group of 50, 10 sending", 50_000, Peer(TINODE, 32_000)),
    Headline("W3", "messages_per_s", "messages fetched/s", "20 catch up 1,000", 50_000, Peer(TINODE, 120_000)),
    Headline("W4", "kib_per_connection", "KiB per connection", "1,000 idle", 30, Peer(TINODE, 31), at_most=True),
    Headline("W5", "durable_per_s", "durable messages/s", "group of 200, p99 ack < 100 ms", 2_500),
    Headline("W6", "at_600_ack_p99_ms", "ms p99 ack", "600/s, chats of five", 100, at_most=True),
    Headline("W6", "at_600_delivery_p99_ms", "ms p99 delivery", "600/s, chats of five", 100, at_most=True),
    Headline("W7", "last_receiver_p99_ms", "ms p99 last receiver", "group of 1,000", 250, at_most=True),
    Headline("W8", "rate_ratio", "of one process's rate", "2 and 3 web, chats shared", 0.9),
    Headline("W8", "p99_ratio", "times one process's p99", "2 and 3 web, chats shared", 1.5, at_most=True),
    Headline("W8", "most_cancelled_share", "cancelled", "of messages' transactions", 0.01, at_most=True),
    Headline("W8", "most_cancelled_of_all_share", "cancelled", "of all transactions", 0.01, at_most=True),
    Headline("W8", "most_errors", "errors", "answered to senders", 0, at_most=True),
    Headline("W8", "most_kafka_out_of_order", "out of order", "first occurrences in Kafka", 0, at_most=True),
    Headline("W8", "requests_ratio", "times the requests", "DynamoDB, a message", 1.2, at_most=True),
    Headline("W9", "kib_per_connection", "KiB per connection", "10,000 idle", 30, at_most=True),
    Headline("W9", "all_current_s", "s until all are current", "10,000 reconnect within 10 s", 15, at_most=True),
    Headline("W9", "others_ack_p99_ms", "ms p99 ack of others", "120/s meanwhile", at_most=True),
    Headline("R1", "requests_per_s", "inboxes/s", "40 chats, 16 connections", 312),
    Headline("R2", "requests_per_s", "pages of history/s", "100 messages, 16 connections", 1_144),
    Headline("R3", "requests_per_s", "GET users/me a second", "16 connections", 1_384),
    Headline("R4", "requests_per_s", "sends/s", "POST, 16 connections"),
    *(
        Headline(name, "request_p99_ms", "ms p99", "16 connections", 50, at_most=True)
        for name in ("R1", "R2", "R3", "R4")
    ),
    Headline("STORM", "all_current_s", "s until all are current", "1,000 reconnect, 200 behind", at_most=True),
    Headline("G1", "worst_ack_p99_ms", "ms p99 ack", "120/s beside the worst abuser", 100, at_most=True),
    Headline("G1", "worst_delivery_p99_ms", "ms p99 delivery", "120/s beside the worst abuser", 100, at_most=True),
)
