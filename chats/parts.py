"""Assembles the parts of `chats`."""

from dataclasses import dataclass

from accounts.services.directory import UserDirectory
from chats.services.access import Access
from chats.services.chat_log import ChatLog
from chats.services.creation import ChatCreation, CreationStores
from chats.services.creation_keys import CreationKeys
from chats.services.details import ChatDetails
from chats.services.event_publisher import EventPublisher
from chats.services.listing import ChatListing
from chats.services.members import Members
from chats.services.posting import Posting
from chats.services.records import ChatRecords
from chats.services.republishing import CreationRepublisher
from chats.stores.chats import ChatStore
from chats.stores.counters import CounterStore
from chats.stores.inspection import ChatInspection
from chats.stores.memberships import MembershipStore
from foundation.kernel.clock import Clock
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.ids import IdFactory
from foundation.stores.dynamodb import Database
from foundation.stores.kafka import EventProducer


@dataclass(frozen=True, slots=True)
class Chats:
    """What the edges and the other apps use."""

    creation: ChatCreation
    details: ChatDetails
    members: Members
    listing: ChatListing
    posting: Posting
    records: ChatRecords


def assemble(
    database: Database,
    *,
    users: UserDirectory,
    creation_keys: CreationKeys,
    log: ChatLog,
    producer: EventProducer,
    cursors: CursorCodec,
    clock: Clock,
    ids: IdFactory,
) -> Chats:
    """`creation_keys` and `log` are implemented by `messaging`, which owns the tables."""
    chats, memberships, counters = ChatStore(database), MembershipStore(database), CounterStore(database)
    access = Access(chats=chats, memberships=memberships)
    events = EventPublisher(producer=producer, ids=ids, clock=clock)
    stores = CreationStores(
        database=database, chats=chats, memberships=memberships, counters=counters, keys=creation_keys
    )
    return Chats(
        creation=ChatCreation(stores=stores, access=access, users=users, log=log, events=events, clock=clock, ids=ids),
        details=ChatDetails(access=access, memberships=memberships, counters=counters, log=log, clock=clock),
        members=Members(access=access, memberships=memberships, log=log, users=users, events=events, cursors=cursors),
        listing=ChatListing(chats=chats, memberships=memberships, counters=counters),
        posting=assemble_posting(database),
        records=ChatRecords(database=database, chats=chats, memberships=memberships, counters=counters),
    )


def assemble_posting(database: Database) -> Posting:
    """The part that a process which only reads needs too."""
    return Posting(database=database, memberships=MembershipStore(database), counters=CounterStore(database))


def assemble_creation_republisher(
    database: Database, *, producer: EventProducer, clock: Clock, ids: IdFactory
) -> CreationRepublisher:
    """The part of operators' tools."""
    return CreationRepublisher(chats=ChatInspection(database), producer=producer, clock=clock, ids=ids)
