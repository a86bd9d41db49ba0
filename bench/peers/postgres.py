"""A PostgreSQL server: a new cluster with default settings, so that every commit is synced to disk."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from bench.peers.system_user import SystemUser
from engines.engine import OnePortEngine
from engines.errors import EngineFailed
from engines.ports import LOOPBACK
from engines.processes import ChildProcess

USER = DATABASE = "ejabberd"
COMMAND_TIMEOUT = 60.0


class PostgresEngine(OnePortEngine):
    """Keeps its data in `directory` and listens on a loopback port, without passwords."""

    name: ClassVar[str] = "postgres"

    def __init__(self, programs: Path, directory: Path) -> None:
        super().__init__()
        self._programs = programs
        self._directory = directory
        self._user = SystemUser("postgres")

    @property
    def endpoint(self) -> str:
        return f"postgresql://{USER}@{LOOPBACK}:{self.port}/{DATABASE}"

    def environment(self) -> dict[str, str]:
        return {"PGHOST": LOOPBACK, "PGPORT": str(self.port), "PGUSER": USER, "PGDATABASE": DATABASE}

    def create_database(self, schema: Path) -> None:
        self._run((str(self._programs / "createdb"), DATABASE))
        self._psql("--file", str(schema))

    def execute(self, statement: str) -> str:
        """The result as plain text."""
        return self._psql("--tuples-only", "--no-align", "--command", statement).strip()

    def _psql(self, *arguments: str) -> str:
        options = ("--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1")
        return self._run((str(self._programs / "psql"), *options, *arguments))

    def _launch(self) -> ChildProcess:
        if not self._directory.exists():
            self._user.directory(self._directory)
            initdb = ("--auth", "trust", "--username", USER, "--encoding", "UTF8", "--locale", "C.UTF-8")
            make = (str(self._programs / "initdb"), "--pgdata", str(self._directory), *initdb)
            self._run(self._user.command(make))
        self._port.hand_over()
        options = (f"listen_addresses={LOOPBACK}", f"port={self.port}", "unix_socket_directories=")
        settings = [word for option in options for word in ("-c", option)]
        command = (str(self._programs / "postgres"), "-D", str(self._directory), *settings)
        return ChildProcess(self.name, self._user.command(command))

    def _answers(self) -> bool:
        command = (str(self._programs / "pg_isready"), "--quiet", "--dbname", "postgres")
        return self._call(command).returncode == 0

    def _run(self, command: Sequence[str]) -> str:
        """The output of the command. Raises `EngineFailed`."""
        done = self._call(command)
        if done.returncode != 0:
            raise EngineFailed(f"{' '.join(command)[:100]}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def _call(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self.environment()}
        return subprocess.run(  # noqa: S603 - the commands are our own
            command, env=environment, cwd="/", capture_output=True, text=True, timeout=COMMAND_TIMEOUT, check=False
        )
