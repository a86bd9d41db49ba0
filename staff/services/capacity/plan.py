"""From users a day to processes, partitions, memory, request units and dollars a month."""

import math
from dataclasses import dataclass

from staff.services.capacity.inputs import Demand, Measured, Prices

DAY, HOURS_A_MONTH, DAYS_A_MONTH = 86_400, 730, 365 / 12
GB = 10**9

# DynamoDB: https://docs.aws.amazon.com/amazondynamodb (a write unit is 1 KB, a strong read 4 KB, a transaction twice).
WRITE_BYTES, READ_BYTES, TRANSACTION = 1_024, 4_096, 2
MARK_WRITES, MARK_READS = 1, 2
"""Of a mark: its conditional update; before it, the membership and the chat's counter, strongly consistent."""
ITEM_OVERHEAD = 100
MESSAGE_BYTES, KEY_BYTES, EVENT_BYTES, FRAME_BYTES = 250, 230, 480, 330
"""Of an item, an event and a frame without its text."""
KEY_DAYS, EVENT_DAYS, KAFKA_REPLICAS = 7, 7, 3
CACHE_SECONDS = 300
"""How long Redis keeps the members of a chat."""
REFRESH_SECONDS, REFRESH_COMMANDS = 20, 4
"""How often a connection is registered anew, and by how many commands."""
CONNECTION_BYTES, MEMBER_BYTES, LIMIT_BYTES = 530, 60, 180
"""In Redis, measured: a connection's three keys, a member of a cached chat, a user's rate limit."""
REDIS_GIB, REDIS_FILL = 13.0, 0.5
BROKER_BYTES, BROKER_PARTITIONS = 20e6, 1_000
"""What a small broker takes a second, copies included, and holds."""
PARTITIONS_PER_FANOUT, LEAST_PARTITIONS = 3, 12
"""More partitions than processes, so that processes can be added without changing the topic."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a demand needs. Rates are a second, at the peak."""

    demand: Demand
    measured: Measured
    prices: Prices

    # Rates

    @property
    def average_messages(self) -> float:
        return self.demand.dau * self.demand.messages / DAY

    @property
    def messages(self) -> float:
        return self.average_messages * self.demand.peak

    @property
    def visits(self) -> float:
        return self.demand.dau * self.demand.visits / DAY * self.demand.peak

    @property
    def connections(self) -> float:
        return self.demand.dau * self.demand.online

    # Processes

    @property
    def webs(self) -> int:
        """As CPU and connections need, if every message is handed over, and one more, which may be lost."""
        by_cpu = self.messages * (self.measured.web_ms + self.measured.handed_ms) / 1000 / self.measured.core
        return math.ceil(max(by_cpu, self.connections / self.measured.connections, 1)) + 1

    @property
    def fanouts(self) -> int:
        return math.ceil(max(self.messages * self.measured.fanout_ms / 1000 / self.measured.core, 1)) + 1

    @property
    def web_mib(self) -> float:
        """Memory of a `web` process."""
        return self.measured.process_mib + self.connections / self.webs * self.measured.connection_kib / 1024

    @property
    def handed_share(self) -> float:
        """Share of the messages that arrive at another process than their chat's home."""
        return 1 - 1 / self.webs

    # Kafka

    @property
    def partitions(self) -> int:
        return max(self.fanouts * PARTITIONS_PER_FANOUT, LEAST_PARTITIONS)

    @property
    def event_bytes(self) -> float:
        return EVENT_BYTES + self.demand.content

    @property
    def brokers(self) -> int:
        by_bytes = self.messages * self.event_bytes * KAFKA_REPLICAS / BROKER_BYTES
        by_partitions = self.partitions * KAFKA_REPLICAS / BROKER_PARTITIONS
        return math.ceil(max(by_bytes, by_partitions, KAFKA_REPLICAS))

    @property
    def kafka_gb(self) -> float:
        return self.average_messages * DAY * EVENT_DAYS * self.event_bytes * KAFKA_REPLICAS / GB

    # Redis

    @property
    def redis_commands(self) -> float:
        """Deliveries, messages handed over, and the registry of connections."""
        registry = self.connections / REFRESH_SECONDS * REFRESH_COMMANDS
        handed = self.handed_share * self.measured.handed_redis_commands
        return self.messages * (self.measured.redis_commands + handed) + registry

    @property
    def redis_gib(self) -> float:
        """The chats with a message in the last minutes are cached; there are no more of them than messages."""
        cached = self.messages * CACHE_SECONDS * self.demand.members * MEMBER_BYTES
        return (self.connections * (CONNECTION_BYTES + LIMIT_BYTES) + cached) / 2**30

    @property
    def redis_nodes(self) -> int:
        """A primary and a replica for each shard."""
        return 2 * math.ceil(self.redis_gib / (REDIS_GIB * REDIS_FILL))

    # DynamoDB

    @property
    def message_units(self) -> int:
        """Write units of a message by itself: its item, its key and the chat's counter, in a transaction."""
        item = math.ceil((MESSAGE_BYTES + self.demand.content) / WRITE_BYTES)
        return TRANSACTION * (item + 1 + 1)

    @property
    def daily_marks(self) -> float:
        """The marks that are written: one for a message at each receiver who is online, as received, or as read where
        the chat is open; at a visit two for each chat with news, what has arrived and what is read.
        """
        live = (self.demand.members - 1) * self.demand.online
        visits = self.demand.visits * self.demand.news * 2
        return self.demand.dau * (self.demand.messages * live + visits)

    @property
    def daily_writes(self) -> float:
        return self.demand.dau * self.demand.messages * self.message_units + self.daily_marks * MARK_WRITES

    @property
    def daily_reads(self) -> float:
        """Before a message: membership, key and counter. Before a mark: membership and counter. At a visit: the inbox
        and a page of each chat with news.
        """
        before_a_message = 3
        inbox = 1 + 3 * self.demand.chats
        unread = self.demand.messages * self.demand.members / max(self.demand.visits, 1)
        pages = self.demand.news + unread * (MESSAGE_BYTES + self.demand.content) / READ_BYTES
        people = self.demand.messages * before_a_message + self.demand.visits * (inbox + pages)
        return self.demand.dau * people + self.daily_marks * MARK_READS

    @property
    def write_units(self) -> float:
        return self.daily_writes / DAY * self.demand.peak

    @property
    def read_units(self) -> float:
        return self.daily_reads / DAY * self.demand.peak

    @property
    def stored_gb(self) -> float:
        """Messages of all months, and the keys of a week."""
        daily = self.average_messages * DAY
        messages = daily * self.demand.months * DAYS_A_MONTH * (MESSAGE_BYTES + self.demand.content + ITEM_OVERHEAD)
        return (messages + daily * KEY_DAYS * (KEY_BYTES + ITEM_OVERHEAD)) / GB

    # Dollars a month

    @property
    def dollars(self) -> dict[str, float]:
        prices = self.prices
        delivered = self.average_messages * DAY * DAYS_A_MONTH * (self.demand.members - 1)
        return {
            "DynamoDB requests": DAYS_A_MONTH
            * (self.daily_writes * prices.million_writes + self.daily_reads * prices.million_reads)
            / 1e6,
            "DynamoDB storage and backups": self.stored_gb * (prices.stored_gb + prices.backup_gb),
            "web and fanout": (self.webs + self.fanouts) * prices.core_hour * HOURS_A_MONTH,
            "Kafka": self.brokers * prices.broker_hour * HOURS_A_MONTH + self.kafka_gb * prices.kafka_gb,
            "Redis": self.redis_nodes * prices.redis_hour * HOURS_A_MONTH,
            "traffic": delivered * (FRAME_BYTES + self.demand.content) / GB * prices.traffic_gb,
        }
