"""The one place where the parts meet: settings become clients, clients become stores, stores become services.

Everything is made at first use, so a command that needs no engine touches none.
"""

import asyncio
import secrets
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property

import boto3
from botocore.config import Config
from channels.layers import get_channel_layer
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

import accounts.stores
import chats.stores
import delivery.stores
import messaging.stores
from accounts.parts import Accounts, AccountsOptions, Engines, assemble
from accounts.services.directory import UserDirectory
from accounts.services.registration import Registration
from accounts.services.sms import FileSmsSender, SmsSender, SnsSmsSender
from accounts.stores.users import UserStore
from chats.services.access import Access
from chats.services.creation import ChatCreation, CreationStores
from chats.services.details import ChatDetails
from chats.services.event_publisher import EventPublisher
from chats.services.joining import Joining
from chats.services.leaving import Leaving
from chats.services.listing import ChatListing
from chats.services.members import Members
from chats.services.posting import Posting
from chats.stores.chats import ChatStore
from chats.stores.counters import CounterStore
from chats.stores.memberships import MembershipStore
from config.settings.kafka import uses_iam
from delivery.fanout.gaps import Gaps
from delivery.fanout.members import MemberCache
from delivery.fanout.processor import Processor
from delivery.fanout.worker import Worker
from delivery.gateway.consumer import GatewayParts
from delivery.gateway.control import ControlListener
from delivery.gateway.hub import Hub
from delivery.services.ack_buffer import AckBuffer
from delivery.services.inbox import Inbox
from delivery.services.watermarks import Watermarks
from delivery.stores.connections import Routes
from delivery.stores.watermarks import WatermarkStore
from demo.stage import Company, Stage
from foundation.kernel.clock import SystemClock
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.ids import IdFactory, SessionId
from foundation.rest.addresses import ClientAddress
from foundation.rest.authentication import Verify
from foundation.rest.health import EngineProbes
from foundation.rest.throttling import CallerThrottle
from foundation.stores.dynamodb import Database, DynamoDBOptions
from foundation.stores.kafka import EventConsumer, EventLogAdmin, EventProducer, KafkaOptions
from foundation.stores.kafka.announcer import Announcer
from foundation.stores.kafka.msk_iam import MskIamTokens
from foundation.stores.redis.client import RedisOptions, connect, connect_async, naming_failures
from foundation.stores.redis.control import RevocationChannel
from foundation.stores.redis.limits import Limit, RateLimiter
from messaging.services.allowance import SendAllowance
from messaging.services.committer import Committer
from messaging.services.history import History
from messaging.services.ingest import Ingest
from messaging.stores.idempotency import ChatCreationKeys, IdempotencyKeyStore
from messaging.stores.messages import MessageStore

TABLES = (
    *accounts.stores.TABLES,
    *chats.stores.TABLES,
    *messaging.stores.TABLES,
    *delivery.stores.TABLES,
)

READS = Limit("reads", rate=50, burst=200)


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
    def announcer(self) -> Announcer:
        return Announcer(self.producer)

    @cached_property
    def event_log(self) -> EventLogAdmin:
        return EventLogAdmin(self.kafka_options)

    @cached_property
    def redis(self) -> Redis:
        return connect(RedisOptions(url=settings.REDIS_URL))

    @cached_property
    def chat_store(self) -> ChatStore:
        return ChatStore(self.database)

    @cached_property
    def membership_store(self) -> MembershipStore:
        return MembershipStore(self.database)

    @cached_property
    def counter_store(self) -> CounterStore:
        return CounterStore(self.database)

    @cached_property
    def posting(self) -> Posting:
        return Posting(database=self.database, memberships=self.membership_store, counters=self.counter_store)

    @cached_property
    def chat_access(self) -> Access:
        return Access(chats=self.chat_store, memberships=self.membership_store)

    @cached_property
    def chat_news(self) -> EventPublisher:
        return EventPublisher(announcer=self.announcer, ids=self.ids, clock=self.clock)

    @cached_property
    def chat_creation(self) -> ChatCreation:
        stores = CreationStores(
            database=self.database,
            chats=self.chat_store,
            memberships=self.membership_store,
            counters=self.counter_store,
            keys=self.creation_keys,
        )
        return ChatCreation(
            stores=stores,
            access=self.chat_access,
            users=self.user_directory,
            news=self.chat_news,
            clock=self.clock,
            ids=self.ids,
        )

    @cached_property
    def chat_details(self) -> ChatDetails:
        return ChatDetails(
            access=self.chat_access,
            chats=self.chat_store,
            memberships=self.membership_store,
            counters=self.counter_store,
            clock=self.clock,
        )

    @cached_property
    def leaving(self) -> Leaving:
        return Leaving(database=self.database, memberships=self.membership_store, counters=self.counter_store)

    @cached_property
    def members(self) -> Members:
        return Members(
            database=self.database,
            access=self.chat_access,
            memberships=self.membership_store,
            joining=Joining(
                memberships=self.membership_store,
                leaving=self.leaving,
                users=self.user_directory,
                clock=self.clock,
            ),
            leaving=self.leaving,
            users=self.user_directory,
            news=self.chat_news,
            cursors=self.cursors,
        )

    @cached_property
    def chat_listing(self) -> ChatListing:
        return ChatListing(
            database=self.database,
            chats=self.chat_store,
            memberships=self.membership_store,
            counters=self.counter_store,
        )

    @cached_property
    def creation_keys(self) -> ChatCreationKeys:
        return ChatCreationKeys(self.database)

    @cached_property
    def message_store(self) -> MessageStore:
        return MessageStore(self.database)

    @cached_property
    def history(self) -> History:
        return History(database=self.database, messages=self.message_store, posting=self.posting)

    @cached_property
    def committer(self) -> Committer:
        ingest = Ingest(
            database=self.database,
            posting=self.posting,
            messages=self.message_store,
            keys=IdempotencyKeyStore(self.database),
            clock=self.clock,
        )
        return Committer(
            ingest=ingest, announcer=self.announcer, clock=self.clock, ids=self.ids, allowance=self.send_allowance
        )

    @cached_property
    def watermarks(self) -> WatermarkStore:
        return WatermarkStore(self.database)

    @cached_property
    def inbox(self) -> Inbox:
        return Inbox(chats=self.chat_listing, history=self.history, watermarks=self.watermarks, cursors=self.cursors)

    @cached_property
    def limiter(self) -> RateLimiter:
        return RateLimiter(self.redis)

    @cached_property
    def read_throttle(self) -> CallerThrottle:
        return CallerThrottle(self.limiter, READS)

    @cached_property
    def client_address(self) -> ClientAddress:
        return ClientAddress(settings.TRUSTED_PROXIES)

    @cached_property
    def sms(self) -> SmsSender:
        if settings.SMS_BACKEND == "file":
            return FileSmsSender(settings.DATA_DIR / "sms.jsonl", clock=self.clock)
        if settings.SMS_BACKEND == "sns":
            patience = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 2, "mode": "standard"})
            return SnsSmsSender(boto3.client("sns", region_name=settings.AWS_REGION, config=patience))
        raise ImproperlyConfigured(f"SMS_BACKEND must be file or sns, not {settings.SMS_BACKEND!r}")

    @cached_property
    def accounts(self) -> Accounts:
        engines = Engines(
            database=self.database, redis=self.redis, sms=self.sms, notices=RevocationChannel(get_channel_layer())
        )
        options = AccountsOptions(
            secret=settings.SECRET_KEY,
            former_secrets=settings.SECRET_KEY_FALLBACKS,
            jwt_keys=settings.JWT_KEYS,
            loopback_is_free=settings.EMBEDDED,
        )
        return assemble(engines, options=options, clock=self.clock, ids=self.ids)

    @cached_property
    def user_directory(self) -> UserDirectory:
        return self.accounts.directory

    @cached_property
    def verify(self) -> Verify:
        return self.accounts.verifier.verify

    @cached_property
    def async_redis(self) -> AsyncRedis:
        return connect_async(RedisOptions(url=settings.REDIS_URL))

    @cached_property
    def acknowledgements(self) -> Watermarks:
        return Watermarks(
            database=self.database,
            store=self.watermarks,
            posting=self.posting,
            cursors=self.cursors,
            clock=self.clock,
        )

    @cached_property
    def ack_buffer(self) -> AckBuffer:
        return AckBuffer(self.acknowledgements)

    @cached_property
    def send_allowance(self) -> SendAllowance:
        return SendAllowance(rate=settings.SEND_RATE, burst=settings.SEND_BURST)

    @cached_property
    def hub(self) -> Hub:
        return Hub(
            gateway_id=f"gw-{secrets.token_hex(6)}",
            client=self.async_redis,
            sessions_ended=self.accounts.verifier.mark_ended,
            control=ControlListener(get_channel_layer).sessions_ended,
            ended_among=self._sessions_ended_among,
        )

    async def _sessions_ended_among(self, session_ids: Iterable[SessionId]) -> Iterable[SessionId]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.gateway.executor, self.accounts.verifier.ended_among, session_ids)

    @cached_property
    def gateway(self) -> GatewayParts:
        return GatewayParts(
            hub=self.hub,
            committer=self.committer,
            history=self.history,
            acks=self.ack_buffer,
            verify=self.accounts.verifier.verify_now,
            executor=ThreadPoolExecutor(8, thread_name_prefix="gateway"),
            allowed_origins=settings.ALLOWED_ORIGINS,
            ids=self.ids,
            clock=self.clock,
            token_grace=settings.TOKEN_GRACE,
        )

    @cached_property
    def fanout_worker(self) -> Worker:
        gaps = Gaps(self.history.payloads_between)
        processor = Processor(
            members=MemberCache(self.redis, list_members=self.posting.list_member_ids),
            routes=Routes(self.redis),
            gaps=gaps,
        )
        consumer = EventConsumer(self.kafka_options, group="fanout", on_revoke=gaps.forget)
        return Worker(consumer=consumer, processor=processor)

    @cached_property
    def demo_stage(self) -> Stage:
        """Nowhere but on a laptop: it logs people in without a code."""
        if not settings.EMBEDDED:
            raise ImproperlyConfigured("The demo exists in embedded mode only")
        company = Company(
            registration=Registration(UserStore(self.database), ids=self.ids, clock=self.clock),
            sessions=self.accounts.sessions,
            creation=self.chat_creation,
            inbox=self.inbox,
            committer=self.committer,
            watermarks=self.acknowledgements,
        )
        return Stage(company)

    def settle(self) -> None:
        """Have the hot path's work done on this thread's event loop, which is about to run."""
        self.database.connection.use_loop()
        self.committer.work_on(asyncio.get_event_loop())

    async def close(self) -> None:
        """End the `web` process gently: clients first, then what they left behind, then what is on its way to Kafka."""
        if "hub" in self.__dict__:
            await self.hub.drain()
        loop = asyncio.get_running_loop()
        for part in ("ack_buffer", "committer", "history", "announcer", "producer"):
            if part in self.__dict__:
                await loop.run_in_executor(None, getattr(self, part).close)
        if "database" in self.__dict__:
            self.database.connection.close()

    @cached_property
    def probes(self) -> EngineProbes:
        return EngineProbes({"dynamodb": self._probe_dynamodb, "kafka": self._probe_kafka, "redis": self._probe_redis})

    def _probe_dynamodb(self) -> None:
        name = self.database.table_name(TABLES[0])
        self.database.connection.dispatch("DescribeTable", {"TableName": name})

    def _probe_kafka(self) -> None:
        self.event_log.require_topics(timeout=1.4)

    def _probe_redis(self) -> None:
        with naming_failures():
            self.redis.ping()


@cache
def wiring() -> Wiring:
    """This process's parts."""
    return Wiring()
