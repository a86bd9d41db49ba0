"""Assembles the parts of `delivery`: services, the gateway of a `web` process, the worker of a `fanout` process."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import redis
import redis.asyncio

from accounts.services.verification import TokenVerifier
from chats.parts import Chats
from delivery.fanout.processor import Gaps, Processor, ReadBetween
from delivery.gateway.consumer import GatewayParts
from delivery.gateway.control import ChannelLayer, ControlListener
from delivery.gateway.hub import Hub
from delivery.services.ack_buffer import AckBuffer
from delivery.services.inbox import Inbox
from delivery.services.watermarks import Watermarks
from delivery.stores.connections import ListMembers, MemberCache, Routes
from delivery.stores.watermarks import WatermarkStore
from foundation.kernel.clock import Clock
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.ids import IdFactory, SessionId
from foundation.rest.health import EngineProbes, Probe
from foundation.stores.dynamodb import Database
from foundation.stores.kafka import EventConsumer, KafkaOptions
from messaging.parts import Messaging

VERIFYING_THREADS = 8


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the edges use."""

    inbox: Inbox
    watermarks: Watermarks
    acks: AckBuffer


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """`token_grace`: seconds that a connection outlives its access token."""

    gateway_id: str
    allowed_origins: Sequence[str]
    allowed_hosts: Sequence[str]
    token_grace: float
    max_connections_per_user: int


def assemble(database: Database, *, chats: Chats, messaging: Messaging, cursors: CursorCodec, clock: Clock) -> Delivery:
    store = WatermarkStore(database)
    watermarks = Watermarks(database=database, store=store, posting=chats.posting, cursors=cursors, clock=clock)
    return Delivery(
        inbox=Inbox(
            chats=chats.listing,
            history=messaging.history,
            watermarks=store,
            loop=database.loop,
            cursors=cursors,
        ),
        watermarks=watermarks,
        acks=AckBuffer(watermarks),
    )


def assemble_gateway(
    delivery: Delivery,
    *,
    messaging: Messaging,
    verifier: TokenVerifier,
    redis: "redis.asyncio.Redis",
    channel_layer: Callable[[], ChannelLayer],
    options: GatewayOptions,
    clock: Clock,
    ids: IdFactory,
) -> GatewayParts:
    executor = ThreadPoolExecutor(VERIFYING_THREADS, thread_name_prefix="gateway")

    async def ended_among(session_ids: Iterable[SessionId]) -> Iterable[SessionId]:
        return await asyncio.get_running_loop().run_in_executor(executor, verifier.ended_among, session_ids)

    return GatewayParts(
        hub=Hub(
            gateway_id=options.gateway_id,
            client=redis,
            sessions_ended=verifier.mark_ended,
            control=ControlListener(channel_layer).sessions_ended,
            ended_among=ended_among,
            max_per_user=options.max_connections_per_user,
        ),
        committer=messaging.committer,
        history=messaging.history,
        acks=delivery.acks,
        verify=verifier.verify_now,
        executor=executor,
        allowed_origins=options.allowed_origins,
        allowed_hosts=options.allowed_hosts,
        ids=ids,
        clock=clock,
        token_grace=options.token_grace,
    )


@dataclass(frozen=True, slots=True)
class Fanout:
    """A worker of the consumer group `fanout`."""

    consumer: EventConsumer
    processor: Processor
    probes: EngineProbes

    def run(self) -> None:
        """Deliver events until `stop`. Events that cannot be read are skipped; others wait until they succeed."""
        self.consumer.run(self.processor.process)

    def stop(self) -> None:
        self.consumer.stop()


def assemble_fanout(
    *,
    redis: "redis.Redis",
    kafka: KafkaOptions,
    list_members: ListMembers,
    read_between: ReadBetween,
    engine_probes: Mapping[str, Probe],
) -> Fanout:
    processor = Processor(
        members=MemberCache(redis, list_members=list_members), routes=Routes(redis), gaps=Gaps(read_between)
    )
    consumer = EventConsumer(kafka, group="fanout", on_revoke=processor.forget)
    return Fanout(consumer, processor, EngineProbes({**engine_probes, "events": consumer.require_progress}))
