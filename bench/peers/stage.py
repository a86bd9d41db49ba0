"""Where the peer's workloads play: a running ejabberd, users and rooms as wanted, and what its processes use."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.meter import Meter, metering
from bench.peers.ejabberd import EjabberdEngine
from bench.peers.manners import Manner
from bench.peers.packages import Packages
from bench.peers.postgres import PostgresEngine
from bench.peers.stanzas import HOST, ROOMS
from bench.processes import ClientProcesses
from bench.stage import IDLE_SHARE, Report
from bench.timeline import WrongDelivery

PASSWORD = "secret"  # noqa: S105 - of users who live as long as the benchmark


@dataclass(frozen=True, slots=True)
class User:
    name: str

    @property
    def address(self) -> str:
        return f"{self.name}@{HOST}"


class PeerStage:
    """ejabberd and its PostgreSQL. Users and rooms are new ones for each run, as they are with Parley."""

    def __init__(self, postgres: PostgresEngine, ejabberd: EjabberdEngine, *, versions: str, manner: Manner) -> None:
        self._postgres = postgres
        self._processes = {engine.name: psutil.Process(engine.process.pid) for engine in (ejabberd, postgres)}
        self.clients = ClientProcesses()
        self._users = self._rooms = 0
        self.port = ejabberd.port
        self.versions = versions
        self.manner = manner

    def users(self, count: int) -> list[User]:
        first, self._users = self._users + 1, self._users + count
        self._postgres.execute(
            f"INSERT INTO users (username, password) SELECT 'u' || n, '{PASSWORD}' "  # noqa: S608 - our own numbers
            f"FROM generate_series({first}, {self._users}) AS n"
        )
        return [User(f"u{number}") for number in range(first, self._users + 1)]

    def room(self) -> str:
        """An address where none is yet: the first who enters makes it."""
        self._rooms += 1
        return f"r{self._rooms}@{ROOMS}"

    def require_archived(self, owners: Sequence[str], count: int) -> None:
        """Raises `WrongDelivery` when the archives of these users, or of this room, do not hold so many messages."""
        names = ", ".join(f"'{owner}'" for owner in owners)
        found = self._postgres.execute(f"SELECT count(*) FROM archive WHERE username IN ({names})")  # noqa: S608
        if int(found) != count:
            raise WrongDelivery(f"{count} messages to be archived, and {found} are")

    def settle(self, *, within: float = 60.0) -> None:
        """Return when it has done what was left to do."""
        deadline, pause = time.monotonic() + within, 0.5
        while time.monotonic() < deadline:
            before = sum(map(_cpu_of_all, self._processes.values()))
            time.sleep(pause)
            if sum(map(_cpu_of_all, self._processes.values())) - before < IDLE_SHARE * pause:
                return

    def metering(self) -> AbstractAsyncContextManager[Meter]:
        """`async with stage.metering() as meter:` around the measured window."""
        return metering(self.cpu, dict)

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU so far: of each server with all that it has started, and of the client."""
        used = {name: _cpu_of_all(process) for name, process in self._processes.items()}
        return {**used, "client": self.clients.cpu()}


@contextmanager
def running_peer(packages: Packages, manner: Manner, report: Report) -> Iterator[PeerStage]:
    """Both servers, stopped with the block."""
    with ExitStack() as stack:
        report(f"starting the peer, {packages.versions}, {manner}: {manner.meaning}")
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-peer-")))
        # The servers' own directories are theirs alone, and they have to get there.
        directory.chmod(0o711)
        postgres = PostgresEngine(packages.postgres, directory / "postgres")
        stack.enter_context(postgres)
        postgres.create_database(packages.schema)
        ejabberd = EjabberdEngine(packages, postgres, directory / "ejabberd", manner=manner)
        stack.enter_context(ejabberd)
        yield PeerStage(postgres, ejabberd, versions=packages.versions, manner=manner)


def _cpu_of_all(process: psutil.Process) -> float:
    """Of a process, of those it has started, and of those among them that have ended."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            total += sum(each.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total
