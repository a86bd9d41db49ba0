"""Assembles the parts of `chats`."""

from dataclasses import dataclass

from accounts.services.directory import UserDirectory
from chats.services.access import Access
from chats.services.creation import ChatCreation, CreationStores
from chats.services.creation_keys import CreationKeys
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


def assemble(
    database: Database,
    *,
    users: UserDirectory,
    creation_keys: CreationKeys,
    producer: EventProducer,
    cursors: CursorCodec,
    clock: Clock,
    ids: IdFactory,
) -> Chats:
    """`creation_keys` is implemented by `messaging`, which owns the table."""
    chats, memberships, counters = ChatStore(database), MembershipStore(database), CounterStore(database)
    access = Access(chats=chats, memberships=memberships)
    events = EventPublisher(producer=producer, ids=ids, clock=clock)
    leaving = Leaving(database=database, memberships=memberships, counters=counters)
    joining = Joining(memberships=memberships, leaving=leaving, users=users, clock=clock)
    stores = CreationStores(
        database=database, chats=chats, memberships=memberships, counters=counters, keys=creation_keys
    )
    return Chats(
        creation=ChatCreation(stores=stores, access=access, users=users, events=events, clock=clock, ids=ids),
        details=ChatDetails(access=access, chats=chats, memberships=memberships, counters=counters, clock=clock),
        members=Members(
            database=database,
            access=access,
            memberships=memberships,
            joining=joining,
            leaving=leaving,
            users=users,
            events=events,
            cursors=cursors,
        ),
        listing=ChatListing(database=database, chats=chats, memberships=memberships, counters=counters),
        posting=assemble_posting(database),
    )


def assemble_posting(database: Database) -> Posting:
    """The part that a process which only reads needs too."""
    return Posting(database=database, memberships=MembershipStore(database), counters=CounterStore(database))
