"""A running ejabberd as the workloads see it: it creates users and rooms and reads what the processes use."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.deployment import IDLE_CPU_SHARE, Report
from bench.peers.ejabberd import EjabberdEngine
from bench.peers.packages import Packages
from bench.peers.postgres import PostgresEngine
from bench.peers.profiles import Profile
from bench.peers.stanzas import HOST, ROOMS
from bench.processes import ClientProcesses
from bench.timeline import InvalidRun
from bench.window import Window, measure_window

PASSWORD = "secret"  # noqa: S105 - of users that exist only in the benchmark


@dataclass(frozen=True, slots=True)
class User:
    name: str

    @property
    def address(self) -> str:
        return f"{self.name}@{HOST}"


class PeerDeployment:
    """ejabberd and its PostgreSQL. As with Parley, each run gets new users and rooms."""

    def __init__(self, postgres: PostgresEngine, ejabberd: EjabberdEngine, *, versions: str, profile: Profile) -> None:
        self._postgres = postgres
        self._processes = {engine.name: psutil.Process(engine.process.pid) for engine in (ejabberd, postgres)}
        self.clients = ClientProcesses()
        self._users = self._rooms = 0
        self.port = ejabberd.port
        self.versions = versions
        self.profile = profile

    def create_users(self, count: int) -> list[User]:
        first, self._users = self._users + 1, self._users + count
        self._postgres.execute(
            f"INSERT INTO users (username, password) SELECT 'u' || n, '{PASSWORD}' "  # noqa: S608 - our own numbers
            f"FROM generate_series({first}, {self._users}) AS n"
        )
        return [User(f"u{number}") for number in range(first, self._users + 1)]

    def new_room(self) -> str:
        """An unused address: the first user to join creates the room."""
        self._rooms += 1
        return f"r{self._rooms}@{ROOMS}"

    def require_archived(self, owners: Sequence[str], count: int) -> None:
        """Raises `InvalidRun` unless the archives of these users or rooms hold `count` messages."""
        names = ", ".join(f"'{owner}'" for owner in owners)
        found = self._postgres.execute(f"SELECT count(*) FROM archive WHERE username IN ({names})")  # noqa: S608
        if int(found) != count:
            raise InvalidRun(f"{found} of {count} messages are archived")

    def wait_until_idle(self, *, timeout: float = 60.0) -> None:
        """Return when it has finished pending work, or after `timeout` seconds."""
        deadline, interval = time.monotonic() + timeout, 0.5
        while time.monotonic() < deadline:
            before = sum(map(_tree_cpu, self._processes.values()))
            time.sleep(interval)
            if sum(map(_tree_cpu, self._processes.values())) - before < IDLE_CPU_SHARE * interval:
                return

    def measure_window(self) -> AbstractAsyncContextManager[Window]:
        return measure_window(self.cpu, dict)

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU used so far by each server with its children, and by the client."""
        used = {name: _tree_cpu(process) for name, process in self._processes.items()}
        return {**used, "client": self.clients.cpu()}


@contextmanager
def running_peer(packages: Packages, profile: Profile, report: Report) -> Iterator[PeerDeployment]:
    """Run both servers for the length of the block."""
    with ExitStack() as stack:
        report(f"starting the peer, {packages.versions}, {profile}: {profile.description}")
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-peer-")))
        # The servers run as other users and must be able to enter their own directories below.
        directory.chmod(0o711)
        postgres = PostgresEngine(packages.postgres, directory / "postgres")
        stack.enter_context(postgres)
        postgres.create_database(packages.schema)
        ejabberd = EjabberdEngine(packages, postgres, directory / "ejabberd", profile=profile)
        stack.enter_context(ejabberd)
        yield PeerDeployment(postgres, ejabberd, versions=packages.versions, profile=profile)


def _tree_cpu(process: psutil.Process) -> float:
    """CPU of a process and all its descendants, those that have exited included."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            total += sum(each.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total
