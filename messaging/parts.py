"""Assembles the parts of `messaging`."""

from collections.abc import Sequence
from dataclasses import dataclass

import redis.asyncio

from chats.services.changes import Changes
from chats.services.posting import Posting
from foundation.kernel.clock import Clock
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.ids import IdFactory
from foundation.stores.dynamodb import Database
from foundation.stores.kafka import EventProducer
from messaging.services.annotations import Annotations
from messaging.services.batch_reader import BatchReader
from messaging.services.committer import Committer, SendRateLimiter
from messaging.services.envelopes import VERSION, Envelopes
from messaging.services.guests import Guests
from messaging.services.handover import HandOver
from messaging.services.history import History
from messaging.services.homes import HomeRegistration, Homes
from messaging.services.ingest import Ingest, IngestStores
from messaging.services.notices import CommandLog
from messaging.services.peers import Channel, Peers
from messaging.services.recent_chats import RecentChats
from messaging.services.republishing import Republisher
from messaging.stores.homes import RedisHomeList
from messaging.stores.messages import IdempotencyKeyStore, MessageStore
from messaging.stores.peer_channel import PeerChannel
from messaging.stores.recent_chats import RecentChatsWriter


@dataclass(frozen=True, slots=True)
class MessagingOptions:
    """The send limit of a user: `send_burst` at once, `send_rate` a second. `gateway_id` is this process's.

    What processes hand over is signed with keys derived from `secret`; those of `former_secrets` are accepted.
    """

    gateway_id: str
    secret: str
    former_secrets: Sequence[str]
    send_rate: float
    send_burst: int


@dataclass(frozen=True, slots=True)
class Messaging:
    """What the edges and the other apps use."""

    committer: Committer
    history: History
    annotations: Annotations
    log: CommandLog
    peers: Peers


def assemble(
    database: Database,
    *,
    posting: Posting,
    producer: EventProducer,
    redis: "redis.asyncio.Redis",
    options: MessagingOptions,
    cursors: CursorCodec,
    clock: Clock,
    ids: IdFactory,
) -> Messaging:
    homes = Homes(is_alone=False)
    stores = IngestStores(
        database=database.on_loop,
        posting=posting,
        changes=Changes(database),
        messages=MessageStore(database.on_loop),
        keys=IdempotencyKeyStore(database),
    )
    ingest = Ingest(stores, clock=clock, homes=homes)
    recent = RecentChats(RecentChatsWriter(redis), clock=clock)
    committer = Committer(
        ingest=ingest,
        reader=BatchReader(stores, ingest, clock=clock),
        producer=producer,
        clock=clock,
        ids=ids,
        limiter=SendRateLimiter(rate=options.send_rate, burst=options.send_burst),
        recent=recent,
    )
    homes.subscribe(committer.on_homes_changed)
    history = assemble_history(database, posting=posting)
    return Messaging(
        committer=committer,
        history=history,
        annotations=Annotations(
            database=database.on_loop,
            history=history,
            messages=MessageStore(database.on_loop),
            posting=posting,
            cursors=cursors,
        ),
        log=CommandLog(committer, loop=database.loop, recent=recent),
        peers=assemble_peers(
            committer,
            homes,
            channel=PeerChannel(redis),
            registration=HomeRegistration(homes, RedisHomeList(redis)),
            options=options,
            clock=clock,
        ),
    )


def assemble_republisher(database: Database, *, producer: EventProducer, clock: Clock, ids: IdFactory) -> Republisher:
    """The part of operators' tools."""
    return Republisher(messages=MessageStore(database.on_loop), producer=producer, clock=clock, ids=ids)


def assemble_peers(
    committer: Committer,
    homes: Homes,
    *,
    channel: Channel,
    registration: HomeRegistration,
    options: MessagingOptions,
    clock: Clock,
    version: int = VERSION,
) -> Peers:
    """The part that hands drafts over to other processes of this version, and commits theirs."""
    peers = Peers(
        gateway_id=options.gateway_id,
        channel=channel,
        envelopes=Envelopes(options.secret, options.former_secrets, version=version),
        homes=homes,
        registration=registration,
        clock=clock,
    )
    handover = HandOver(homes=homes, committer=committer, transport=peers)
    peers.connect(handover, Guests(committer))
    committer.use(handover)
    return peers


def assemble_history(database: Database, *, posting: Posting) -> History:
    """The part that a process which only reads needs too."""
    return History(database=database.on_loop, messages=MessageStore(database.on_loop), posting=posting)
