"""Assembles the parts of `delivery`: services, the gateway of a `web` process, the worker of a `fanout` process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import redis
import redis.asyncio

from accounts.services.directory import UserDirectory
from accounts.services.verification import TokenVerifier
from chats.parts import Chats
from delivery.fanout.processor import Gaps, Processor, ReadBetween
from delivery.gateway.broadcast import Broadcast
from delivery.gateway.consumer import GatewayParts
from delivery.gateway.control import ChannelLayer, ControlListener
from delivery.gateway.hub import Hub
from delivery.gateway.live import LiveUpdates
from delivery.gateway.pace import ConnectPace
from delivery.gateway.presence import PresenceWatchers
from delivery.gateway.receipts import LiveReceipts, ReceiptDelivery
from delivery.gateway.serving import Services
from delivery.gateway.typing import TypingDelivery, TypingForwarder
from delivery.services.inbox import Inbox
from delivery.services.mark_buffer import MarkBuffer
from delivery.services.presence import Presence
from delivery.services.privacy import PrivacySettings
from delivery.services.receipts import ChatReceipts
from delivery.services.watermarks import Watermarks
from delivery.stores.audience import Audience
from delivery.stores.connections import ListMembers, MemberCache, Routes
from delivery.stores.presence import PresenceStore
from delivery.stores.watermarks import WatermarkStore
from foundation.kernel.clock import Clock
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.ids import IdFactory
from foundation.rest.health import EngineProbes, Probe
from foundation.rest.origins import AllowedOrigins
from foundation.stores.dynamodb import Database
from foundation.stores.kafka import EventConsumer, KafkaOptions
from foundation.stores.redis.limits import Limit
from messaging.parts import Messaging


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the edges use."""

    inbox: Inbox
    watermarks: Watermarks
    marks: MarkBuffer
    receipts: ChatReceipts
    presence: Presence
    privacy: PrivacySettings
    broadcast: Broadcast


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """`token_grace`: seconds that a connection outlives its access token."""

    gateway_id: str
    allowed_origins: Sequence[str]
    allowed_hosts: Sequence[str]
    token_grace: float
    max_connections_per_user: int
    connects_per_user: Limit


def assemble(
    database: Database,
    *,
    users: UserDirectory,
    chats: Chats,
    messaging: Messaging,
    redis: "redis.asyncio.Redis",
    cursors: CursorCodec,
    clock: Clock,
) -> Delivery:
    store = WatermarkStore(database.on_loop)
    privacy = PrivacySettings(users)
    broadcast = Broadcast(Audience(redis, list_members=chats.posting.list_member_ids))
    watermarks = Watermarks(
        database=database.on_loop,
        store=store,
        posting=chats.posting,
        cursors=cursors,
        clock=clock,
        on_moved=LiveReceipts(broadcast, privacy=privacy).note,
    )
    return Delivery(
        inbox=Inbox(
            database=database.on_loop,
            chats=chats.listing,
            history=messaging.history,
            watermarks=store,
            cursors=cursors,
        ),
        watermarks=watermarks,
        marks=MarkBuffer(watermarks),
        receipts=ChatReceipts(database, members=chats.members, store=store, users=users),
        presence=Presence(
            PresenceStore(redis),
            database=database.on_loop,
            posting=chats.posting,
            users=users,
            privacy=privacy,
            clock=clock,
        ),
        privacy=privacy,
        broadcast=broadcast,
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
    presence, privacy = delivery.presence, delivery.privacy
    watchers = PresenceWatchers(presence, privacy=privacy)
    typing = TypingForwarder(delivery.broadcast, is_member=presence.is_member)
    live = LiveUpdates(
        {"receipts": ReceiptDelivery(privacy).deliver, "typing": TypingDelivery().deliver},
        presence=presence,
        privacy=privacy,
        watchers=watchers,
        typing=typing,
    )
    return GatewayParts(
        hub=Hub(
            gateway_id=options.gateway_id,
            client=redis,
            sessions_ended=verifier.mark_ended,
            users_changed=verifier.forget_users,
            control=ControlListener(channel_layer, name=options.gateway_id).next_notice,
            ended_among=verifier.ended_among,
            live=live,
            max_per_user=options.max_connections_per_user,
        ),
        pace=ConnectPace(options.connects_per_user, identify=verifier.identify),
        services=Services(
            committer=messaging.committer,
            history=messaging.history,
            marks=delivery.marks,
            typing=typing,
            watchers=watchers,
            clock=clock,
        ),
        verify=verifier.verify_now,
        allowed_origins=AllowedOrigins(options.allowed_origins),
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
