"""What the arithmetic starts from: what people do, what a process was measured to need, what AWS charges."""

from dataclasses import dataclass, field
from typing import TypeVar

MEANING = "meaning"
Number = TypeVar("Number", int, float)


def _option(default: Number, meaning: str) -> Number:
    """A field whose meaning the command shows."""
    return field(default=default, metadata={MEANING: meaning})


@dataclass(frozen=True, slots=True)
class Demand:
    """What people do. Each field is an option of `manage.py capacity`."""

    dau: int = _option(1_000_000, "users a day")
    messages: float = _option(100.0, "messages a user sends a day")
    members: float = _option(5.0, "members of a chat, on average over messages")
    content: int = _option(120, "bytes of a message's text")
    online: float = _option(0.3, "share of the users that is connected at the peak")
    visits: float = _option(10.0, "times a day that a user comes back: an inbox, and a sync of the chats with news")
    chats: int = _option(40, "chats in an inbox")
    news: float = _option(5.0, "chats with news at a visit")
    peak: float = _option(3.0, "the busiest second, as a multiple of the average one")
    hottest: float = _option(50.0, "messages a second in the hottest chat")
    months: float = _option(12.0, "months of messages that are stored")


@dataclass(frozen=True, slots=True)
class Measured:
    """What one process needs, as measured, and what it is given.

    CPU and commands: W6 at 600 messages a second, chats of five, with acknowledgements and reconnects; memory: W4. The
    hand-over: two processes on one machine, 280 messages a second into fifty chats at home at the other one, beside the
    same messages at home; so few share no batch, as among many processes.
    """

    source: str = "bench/results/2026-11-17T163523-all.json"
    web_ms: float = 1.19
    """milliseconds of CPU a message"""
    fanout_ms: float = 0.33
    redis_commands: float = 1.85
    """commands a message"""
    handed_ms: float = 0.8
    """milliseconds of CPU a message that is handed over, in both processes"""
    handed_redis_commands: float = 2.0
    """its batch and the answer"""
    connection_kib: float = 30.0
    core: float = 0.6
    """share of a core that a process may use at the peak: the rest is for reconnects and a lost neighbour"""
    connections: int = 10_000
    """connections of a `web` process: all of them can reconnect within some seconds"""
    process_mib: float = 150.0
    """memory of an empty process"""


@dataclass(frozen=True, slots=True)
class Prices:
    """List prices in dollars. Look them up again before you rely on them."""

    date: str = "2025-07"
    region: str = "us-east-1"
    million_writes: float = 0.625
    """DynamoDB on demand: a million write request units"""
    million_reads: float = 0.125
    stored_gb: float = 0.25
    """DynamoDB, a month"""
    backup_gb: float = 0.20
    """point-in-time recovery, a month"""
    core_hour: float = 0.0363
    """a core of a c7g instance with 2 GiB"""
    broker_hour: float = 0.204
    """MSK, kafka.m7g.large"""
    kafka_gb: float = 0.10
    """MSK storage, a month"""
    redis_hour: float = 0.219
    """ElastiCache, cache.r7g.large, 13 GiB"""
    traffic_gb: float = 0.09
    """to the internet"""
