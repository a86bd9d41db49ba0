"""Assembles what the pages and the commands about people work with."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import redis
from pynamodb.models import Model

from accounts.parts import Accounts
from accounts.services.directory import UserDirectory
from accounts.services.sessions import Sessions
from chats.parts import Chats
from chats.services.records import ChatRecords
from delivery.parts import Delivery
from delivery.services.inbox import Inbox, InboxPage
from delivery.stores.gateways import GatewayDirectory
from foundation.kernel.clock import Clock
from foundation.kernel.ids import ChatId, UserId
from foundation.kernel.loops import ServiceLoop
from foundation.rest.addresses import ClientAddress
from foundation.rest.health import EngineProbes
from foundation.stores.dynamodb import Database
from foundation.stores.kafka import KafkaOptions
from foundation.stores.redis.limits import RateLimiter
from messaging.parts import Messaging
from messaging.services.history import History
from staff.parts import Recovery
from staff.services.chat_check import ChatCheck
from staff.services.engines import Engines
from staff.services.erasure import Erasure, ErasureServices
from staff.services.export import PersonExport, Sources
from staff.services.login_attempts import LoginAttempts
from staff.services.moderation import Moderation
from staff.services.people import People


@dataclass(frozen=True, slots=True)
class StaffServices:
    """The services behind the pages."""

    people: People
    sessions: Sessions
    directory: UserDirectory
    chats: ChatRecords
    inbox: Inbox
    history: History
    gateways: GatewayDirectory
    engines: Engines
    moderation: Moderation
    recovery: Callable[[], Recovery]
    chat_check: ChatCheck
    attempts: LoginAttempts
    address_of: ClientAddress
    clock: Clock
    loop: ServiceLoop

    def list_chats(self, user_id: UserId, *, limit: int, cursor: str | None) -> InboxPage:
        """A page of a person's chats with their marks."""
        return self.loop.run(self.inbox.list_chats(user_id, limit=limit, cursor=cursor))

    def list_entries(self, chat_id: ChatId, first: int, last: int) -> Sequence[dict[str, Any]]:
        """A chat's entries with these sequences, newest first."""
        found = self.loop.run(self.history.payloads_between(chat_id, first, last)) if first <= last else []
        return found[::-1]

    def list_names(self, user_ids: Iterable[str]) -> dict[str, str]:
        """The names of the people that exist."""
        found = self.directory.find_public_users({UserId(each) for each in user_ids})
        return {user_id: user.display_name for user_id, user in found.items()}


@dataclass(frozen=True, slots=True)
class Apps:
    """The apps below."""

    accounts: Accounts
    chats: Chats
    messaging: Messaging
    delivery: Delivery


@dataclass(frozen=True, slots=True)
class StaffEngines:
    database: Database
    redis: "redis.Redis"
    kafka: KafkaOptions
    probes: EngineProbes
    tables: Sequence[type[Model]]


def assemble_staff_services(
    apps: Apps,
    engines: StaffEngines,
    *,
    recovery: Callable[[], Recovery],
    address_of: ClientAddress,
    clock: Clock,
    redacts_erased: bool = False,
) -> StaffServices:
    """`recovery` is made at first use, on an event loop of its own: it reads whole logs."""
    accounts, chats, loop = apps.accounts, apps.chats, engines.database.loop
    export = PersonExport(
        Sources(
            sessions=accounts.sessions,
            inbox=apps.delivery.inbox,
            history=apps.messaging.history,
            watermarks=apps.delivery.watermarks,
            loop=loop,
        )
    )
    erased = ErasureServices(
        records=accounts.records,
        sessions=accounts.sessions,
        suspensions=accounts.suspensions,
        members=chats.members,
        chats=chats.records,
        watermarks=apps.delivery.watermarks,
        loop=loop,
    )
    moderation = Moderation(history=apps.messaging.history, committer=apps.messaging.committer, loop=loop)
    people = People(
        records=accounts.records,
        sessions=accounts.sessions,
        suspensions=accounts.suspensions,
        export=export,
        erasure=Erasure(erased, export=export, moderation=moderation if redacts_erased else None),
    )
    return StaffServices(
        people=people,
        sessions=accounts.sessions,
        directory=accounts.directory,
        chats=chats.records,
        inbox=apps.delivery.inbox,
        history=apps.messaging.history,
        gateways=GatewayDirectory(engines.redis),
        engines=Engines(probes=engines.probes, database=engines.database, tables=engines.tables, kafka=engines.kafka),
        moderation=moderation,
        recovery=recovery,
        chat_check=ChatCheck(recovery),
        attempts=LoginAttempts(RateLimiter(engines.redis)),
        address_of=address_of,
        clock=clock,
        loop=loop,
    )
