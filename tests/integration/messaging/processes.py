"""Several processes on one database and one Redis, each with its own event loop, list of homes and channel."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from redis.asyncio import Redis

from config.wiring.commands import TABLES
from foundation.kernel.clock import SystemClock
from foundation.kernel.events import Event
from foundation.kernel.ids import ChatId
from foundation.kernel.loops import ServiceLoop
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from foundation.stores.kafka import EventProducer, OnDelivered, Outgoing
from foundation.stores.redis.client import RedisOptions, connect_async
from messaging.parts import MessagingOptions, assemble_peers
from messaging.services.committer import CONTENTION_RETRIES
from messaging.services.envelopes import VERSION
from messaging.services.homes import HomeRegistration, Homes
from messaging.stores.homes import RedisHomeList
from messaging.stores.peer_channel import PeerChannel
from tests.doubles import eventually
from tests.integration.messaging.services import Services

SECRET = "a secret of these tests"


class SharedLog(EventProducer):
    """One log of events for all processes, in the order in which they publish. `stop` it and it answers nobody."""

    def __init__(self) -> None:
        self._log_lock = threading.Lock()
        self._events: list[Event] = []
        self._is_stopped = False
        self._unanswered: list[Callable[[], None]] = []

    def publish(self, batch: Sequence[Outgoing], *, on_delivered: OnDelivered, timeout: float | None = None) -> None:
        with self._log_lock:
            self._events += [outgoing.event for outgoing in batch]
            if self._is_stopped:
                self._unanswered.append(partial(on_delivered, range(len(batch)), None))
                return
        on_delivered(range(len(batch)), None)

    def stop(self) -> None:
        with self._log_lock:
            self._is_stopped = True

    def start(self) -> None:
        with self._log_lock:
            self._is_stopped = False
            unanswered, self._unanswered = self._unanswered, []
        for answer in unanswered:
            answer()

    def first_occurrences(self, chat_id: ChatId) -> list[int]:
        """The chat's sequences as a plain consumer sees them, without repetitions."""
        with self._log_lock:
            return list(dict.fromkeys(e.payload["sequence"] for e in self._events if e.partition_key == chat_id))


class ScriptedHomeList(RedisHomeList):
    """The list in Redis, or what a test makes of it."""

    def __init__(self, client: "Redis") -> None:
        super().__init__(client)
        self.gateways: set[str] | None = None

    async def refresh(self, name: str | None, *, former: Iterable[str] = ()) -> list[str]:
        names = await super().refresh(name, former=former)
        if self.gateways is None:
            return names
        return [each for each in names if each == name or each.partition(":")[0] in self.gateways]


class Process(Services):
    """One process's ingest path, connected to the others."""

    def __init__(
        self,
        gateway_id: str,
        database: Database,
        *,
        redis_url: str,
        log: SharedLog,
        secret: str = SECRET,
        former_secrets: Sequence[str] = (),
        version: int = VERSION,
    ) -> None:
        homes = Homes(is_alone=False)
        super().__init__(database, SystemClock(), producer=log, contention_retry=CONTENTION_RETRIES, homes=homes)
        self.gateway_id = gateway_id
        self.redis = connect_async(RedisOptions(redis_url))
        self.home_list = ScriptedHomeList(self.redis)
        self.registration = HomeRegistration(self.homes, self.home_list)
        self.peers = assemble_peers(
            self.committer,
            self.homes,
            channel=PeerChannel(self.redis),
            registration=self.registration,
            options=MessagingOptions(gateway_id, secret, former_secrets, send_rate=1e6, send_burst=10**6),
            clock=self.clock,
            version=version,
        )
        self._running = self.loop.submit(self.peers.run())

    def believe_in(self, *gateway_ids: str) -> None:
        """See nobody else in the list."""
        self.home_list.gateways = set(gateway_ids)
        self.run(self.registration.refresh())

    def stop(self, *, is_last: bool = False) -> None:
        """As a process shuts down; `is_last`: nobody is left who has to notice."""

        async def stop() -> None:
            await self.peers.leave()
            if not is_last:
                await self.peers.refuse()
            await self.committer.close()
            await self.peers.close()

        self.run(stop())
        self._running.result(5)
        self.run(self.history.close())
        self.run(self.redis.aclose())
        self.wire.detach()


class Cluster:
    """Starts processes, and stops them at the end."""

    def __init__(self, options: DynamoDBOptions, redis_url: str) -> None:
        self.log = SharedLog()
        self.processes: list[Process] = []
        self._options = options
        self._redis_url = redis_url

    def start(
        self,
        count: int = 1,
        *,
        secret: str = SECRET,
        former_secrets: Sequence[str] = (),
        redis_url: str | None = None,
        version: int = VERSION,
    ) -> list[Process]:
        """Start processes of a version of the hand-over, and wait until all know each other.

        `redis_url`: another way to their Redis.
        """
        for _ in range(count):
            database = Database(self._options, loop=ServiceLoop())
            schema.create_missing(database, TABLES, report=lambda line: None)
            gateway_id = f"gw-{len(self.processes)}"
            self.processes.append(
                Process(
                    gateway_id,
                    database,
                    redis_url=redis_url or self._redis_url,
                    log=self.log,
                    secret=secret,
                    former_secrets=former_secrets,
                    version=version,
                )
            )
        self.wait_until_homes_agree()
        return self.processes

    def wait_until_homes_agree(self) -> None:
        eventually(lambda: all(len(each.homes.names) == len(self.processes) for each in self.processes))

    def stop(self, process: Process, *, is_last: bool = False) -> None:
        self.processes.remove(process)
        process.stop(is_last=is_last)
        process.loop.run(process.database.on_loop.wire.close())
        process.loop.close()


@contextmanager
def running(options: DynamoDBOptions, redis_url: str) -> Iterator[Cluster]:
    cluster = Cluster(options, redis_url)
    try:
        yield cluster
    finally:
        for process in list(cluster.processes):
            cluster.stop(process, is_last=True)
