"""Assembles the parts of `messaging`."""

from dataclasses import dataclass

from chats.services.posting import Posting
from foundation.kernel.clock import Clock
from foundation.kernel.ids import IdFactory
from foundation.stores.dynamodb import Database
from foundation.stores.kafka.announcer import Announcer
from messaging.services.allowance import SendAllowance
from messaging.services.committer import Committer
from messaging.services.history import History
from messaging.services.ingest import Ingest
from messaging.stores.idempotency import IdempotencyKeyStore
from messaging.stores.messages import MessageStore


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
    announcer: Announcer,
    options: MessagingOptions,
    clock: Clock,
    ids: IdFactory,
) -> Messaging:
    ingest = Ingest(
        database=database,
        posting=posting,
        messages=MessageStore(database),
        keys=IdempotencyKeyStore(database),
        clock=clock,
    )
    committer = Committer(
        ingest=ingest,
        announcer=announcer,
        clock=clock,
        ids=ids,
        allowance=SendAllowance(rate=options.send_rate, burst=options.send_burst),
    )
    return Messaging(committer=committer, history=assemble_history(database, posting=posting))


def assemble_history(database: Database, *, posting: Posting) -> History:
    """The part that a process which only reads needs too."""
    return History(database=database, messages=MessageStore(database), posting=posting)
