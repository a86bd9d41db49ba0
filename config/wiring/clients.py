"""The clients of the engines, made from the settings at first use: a command that needs no engine touches none."""

from collections.abc import Callable, Mapping
from functools import cached_property

import boto3
from botocore.config import Config
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from accounts import stores as accounts_stores
from accounts.services.sms import FileSmsSender, SmsSender, SnsSmsSender
from accounts.services.sms_webhook import WebhookSmsSender
from config.settings.kafka import uses_iam
from foundation.kernel.clock import Clock, SystemClock
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.ids import IdFactory
from foundation.kernel.loops import ServiceLoop
from foundation.stores.dynamodb import Database, DynamoDBOptions
from foundation.stores.kafka import EventLogAdmin, EventProducer, KafkaOptions
from foundation.stores.kafka.msk_iam import MskIamTokens
from foundation.stores.redis.client import RedisOptions, connect, connect_async, require_writable

PROBE_TIMEOUT = 1.4


class Clients:
    """One set per process. `read_only` refuses every DynamoDB write before it leaves the process."""

    def __init__(self, *, read_only: bool = False) -> None:
        self.clock: Clock = SystemClock()
        self.ids = IdFactory(self.clock)
        self.cursors = CursorCodec(settings.SECRET_KEY)
        self.loop = ServiceLoop()
        self._read_only = read_only

    @cached_property
    def database(self) -> Database:
        options = DynamoDBOptions(
            region=settings.AWS_REGION,
            endpoint_url=settings.DYNAMODB_ENDPOINT_URL,
            table_prefix=settings.TABLE_PREFIX,
            pool_size=settings.STORE_CONNECTIONS,
        )
        return Database(options, read_only=self._read_only, loop=self.loop)

    @cached_property
    def kafka_options(self) -> KafkaOptions:
        security = dict(settings.KAFKA_SECURITY)
        if uses_iam(security):
            security["oauth_cb"] = MskIamTokens(settings.AWS_REGION)
        return KafkaOptions(
            bootstrap_servers=settings.KAFKA_BOOTSTRAP_SERVERS,
            fetch_wait_ms=settings.KAFKA_FETCH_WAIT_MS,
            session_timeout_ms=settings.KAFKA_SESSION_TIMEOUT_MS,
            extra=security,
        )

    @cached_property
    def producer(self) -> EventProducer:
        return EventProducer(self.kafka_options)

    @cached_property
    def event_log(self) -> EventLogAdmin:
        return EventLogAdmin(self.kafka_options)

    @cached_property
    def redis(self) -> Redis:
        return connect(RedisOptions(url=settings.REDIS_URL))

    @cached_property
    def async_redis(self) -> AsyncRedis:
        return connect_async(RedisOptions(url=settings.REDIS_URL))

    def probes(self) -> Mapping[str, Callable[[], None]]:
        """For `/readyz`: each raises unless its engine can serve."""
        return {
            "dynamodb": self._probe_dynamodb,
            "kafka": lambda: self.event_log.require_topics(timeout=PROBE_TIMEOUT),
            "redis": lambda: require_writable(self.redis),
        }

    def _probe_dynamodb(self) -> None:
        self.database.call("DescribeTable", {"TableName": self.database.table_name(accounts_stores.TABLES[0])})

    @cached_property
    def sms(self) -> SmsSender:
        if settings.SMS_BACKEND == "file":
            return FileSmsSender(settings.DATA_DIR / "sms.jsonl", clock=self.clock)
        if settings.SMS_BACKEND == "sns":
            config = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 2, "mode": "standard"})
            return SnsSmsSender(boto3.client("sns", region_name=settings.AWS_REGION, config=config))
        if settings.SMS_BACKEND == "webhook":
            return WebhookSmsSender(settings.SMS_WEBHOOK_URL, secret=settings.SMS_WEBHOOK_SECRET)
        raise ImproperlyConfigured(f"SMS_BACKEND must be file, sns or webhook, not {settings.SMS_BACKEND!r}")
