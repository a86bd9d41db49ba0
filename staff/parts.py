"""Assembles the parts of `staff`."""

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from redis import Redis

from accounts.stores.inspection import UserInspection
from chats.parts import assemble_creation_republisher
from chats.stores.inspection import ChatInspection
from delivery.stores.gateway_counts import GatewayCounts
from delivery.stores.inspection import MarkInspection
from foundation.kernel.clock import Clock
from foundation.kernel.ids import IdFactory
from foundation.kernel.loops import ServiceLoop
from foundation.rest.health import EngineProbes, Probe
from foundation.stores.dynamodb import Database
from foundation.stores.kafka import EventLogAdmin, EventProducer, KafkaOptions, LogReader
from foundation.stores.redis.control import ControlChannel
from messaging.parts import assemble_republisher
from messaging.stores.inspection import LogInspection
from messaging.stores.recent_chats import RecentChatsReader
from staff.services.audit.auditor import Auditor
from staff.services.audit.problems import AuditStores
from staff.services.drain import Drainer
from staff.services.event_log import GRACE, EventLog
from staff.services.reconcile import Reconciler, Stores
from staff.services.replay import Replay
from staff.services.watch import Watcher

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Recovery:
    """What operators repair with. `run` runs a coroutine of these services, however long it takes."""

    reconciler: Reconciler
    auditor: Auditor
    replay: Replay
    drainer: Drainer
    watcher: Watcher
    clock: Clock
    loop: ServiceLoop
    probes: EngineProbes

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.submit(coroutine).result()


@dataclass(frozen=True, slots=True)
class Engines:
    """The clients that recovery works with."""

    database: Database
    producer: EventProducer
    event_log: EventLogAdmin
    kafka: KafkaOptions
    redis: Redis
    notices: ControlChannel
    probes: Mapping[str, Probe]


def assemble_recovery(engines: Engines, *, clock: Clock, ids: IdFactory, grace: timedelta = GRACE) -> Recovery:
    """`grace`: how young an entry may be and still have its event under way."""
    database = engines.database
    stores = Stores(
        chats=ChatInspection(database),
        entries=LogInspection(database),
        creations=assemble_creation_republisher(database, producer=engines.producer, clock=clock, ids=ids),
        republisher=assemble_republisher(database, producer=engines.producer, clock=clock, ids=ids),
        recent=RecentChatsReader(engines.redis),
    )
    log = EventLog(open_reader=partial(LogReader, engines.kafka), topics=engines.event_log)
    audit_stores = AuditStores(
        users=UserInspection(database),
        chats=ChatInspection(database),
        log=LogInspection(database),
        marks=MarkInspection(database),
    )
    return Recovery(
        reconciler=Reconciler(stores=stores, log=log, clock=clock, grace=grace),
        auditor=Auditor(audit_stores, clock=clock),
        replay=Replay(engines.kafka),
        drainer=Drainer(gateways=GatewayCounts(engines.redis), notices=engines.notices),
        watcher=Watcher(stores=stores, log=log, clock=clock, loop=database.loop, grace=grace),
        clock=clock,
        loop=database.loop,
        probes=EngineProbes(engines.probes),
    )
