"""Assembles the parts of `messaging`."""

from dataclasses import dataclass

from chats.services.posting import Posting
from foundation.kernel.clock import Clock
from foundation.kernel.ids import IdFactory
from foundation.stores.dynamodb import Database
from foundation.stores.kafka import EventProducer
from messaging.services.committer import Committer, SendRateLimiter
from messaging.services.history import History
from messaging.services.ingest import Ingest
from messaging.stores.messages import IdempotencyKeyStore, MessageStore


@dataclass(frozen=True, slots=True)
class MessagingOptions:
    """The send limit of a user: `send_burst` at once, `send_rate` a second."""

    send_rate: float
    send_burst: int


@dataclass(frozen=True, slots=True)
class Messaging:
    """What the edges and the other apps use."""

    committer: Committer
    history: History


def assemble(
    database: Database,
    *,
    posting: Posting,
    producer: EventProducer,
    options: MessagingOptions,
    clock: Clock,
    ids: IdFactory,
) -> Messaging:
    ingest = Ingest(
        database=database.on_loop,
        posting=posting,
        messages=MessageStore(database.on_loop),
        keys=IdempotencyKeyStore(database),
        clock=clock,
    )
    committer = Committer(
        ingest=ingest,
        producer=producer,
        clock=clock,
        ids=ids,
        limiter=SendRateLimiter(rate=options.send_rate, burst=options.send_burst),
    )
    return Messaging(committer=committer, history=assemble_history(database, posting=posting))


def assemble_history(database: Database, *, posting: Posting) -> History:
    """The part that a process which only reads needs too."""
    return History(database=database.on_loop, messages=MessageStore(database.on_loop), posting=posting)
