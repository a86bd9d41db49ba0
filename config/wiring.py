"""The one place where the parts meet: settings become clients, clients become stores, stores become services.

Everything is made at first use, so a command that needs no engine touches none.
"""

from functools import cache, cached_property

import redis
from django.conf import settings

import accounts.stores
import chats.stores
import delivery.stores
import messaging.stores
from config.http.health import EngineProbes
from config.kernel.clock import SystemClock
from config.kernel.cursors import CursorCodec
from config.kernel.ids import IdFactory
from config.stores.announcer import Announcer
from config.stores.dynamodb import Database, DynamoDBOptions
from config.stores.kafka import EventLogAdmin, EventProducer, KafkaOptions
from config.stores.redis import RedisOptions, connect, naming_failures

TABLES = (
    *accounts.stores.TABLES,
    *chats.stores.TABLES,
    *messaging.stores.TABLES,
    *delivery.stores.TABLES,
)


class Wiring:
    """The parts of one process."""

    def __init__(self, *, read_only: bool = False) -> None:
        self._read_only = read_only

    @cached_property
    def clock(self) -> SystemClock:
        return SystemClock()

    @cached_property
    def ids(self) -> IdFactory:
        return IdFactory(self.clock)

    @cached_property
    def cursors(self) -> CursorCodec:
        return CursorCodec(settings.SECRET_KEY)

    @cached_property
    def database(self) -> Database:
        options = DynamoDBOptions(
            region=settings.AWS_REGION,
            endpoint_url=settings.DYNAMODB_ENDPOINT_URL,
            table_prefix=settings.TABLE_PREFIX,
            pool_size=settings.STORE_THREADS,
        )
        return Database(options, read_only=self._read_only)

    @cached_property
    def kafka_options(self) -> KafkaOptions:
        return KafkaOptions(
            bootstrap_servers=settings.KAFKA_BOOTSTRAP_SERVERS, fetch_wait_ms=settings.KAFKA_FETCH_WAIT_MS
        )

    @cached_property
    def producer(self) -> EventProducer:
        return EventProducer(self.kafka_options)

    @cached_property
    def announcer(self) -> Announcer:
        return Announcer(self.producer)

    @cached_property
    def event_log(self) -> EventLogAdmin:
        return EventLogAdmin(self.kafka_options)

    @cached_property
    def redis(self) -> "redis.Redis":
        return connect(RedisOptions(url=settings.REDIS_URL))

    @cached_property
    def probes(self) -> EngineProbes:
        return EngineProbes({"dynamodb": self._probe_dynamodb, "kafka": self._probe_kafka, "redis": self._probe_redis})

    def _probe_dynamodb(self) -> None:
        name = self.database.table_name(TABLES[0])
        self.database.connection.dispatch("DescribeTable", {"TableName": name})

    def _probe_kafka(self) -> None:
        self.event_log.ping(timeout=1.4)

    def _probe_redis(self) -> None:
        with naming_failures():
            self.redis.ping()


@cache
def wiring() -> Wiring:
    """This process's parts."""
    return Wiring()
