"""An ejabberd server that archives every message in PostgreSQL.

Started as `ejabberdctl foreground` does, but as an unnamed Erlang node, which needs no `epmd`.
"""

import os
import socket
from pathlib import Path
from typing import ClassVar

from bench.peers.packages import Packages
from bench.peers.postgres import DATABASE, USER, PostgresEngine
from bench.peers.profiles import Profile, configuration
from bench.peers.stanzas import FEATURES, HEADER
from bench.peers.system_user import SystemUser
from engines.engine import OnePortEngine
from engines.ports import LOOPBACK
from engines.processes import ChildProcess

ERLANG = ("+K", "true", "+P", "250000")
LIMITS = {"ERL_MAX_PORTS": "32000", "ERL_MAX_ETS_TABLES": "1400"}
"""Both as in `ejabberdctl`."""
PROBE_TIMEOUT = 5.0


class EjabberdEngine(OnePortEngine):
    name: ClassVar[str] = "ejabberd"
    ready_within: ClassVar[float] = 60.0

    def __init__(self, packages: Packages, postgres: PostgresEngine, directory: Path, *, profile: Profile) -> None:
        super().__init__()
        self._packages = packages
        self._profile = profile
        self._postgres = postgres
        self._directory = directory
        self._user = SystemUser("ejabberd")

    @property
    def endpoint(self) -> str:
        return f"xmpp://{LOOPBACK}:{self.port}"

    def environment(self) -> dict[str, str]:
        """Empty: no process of Parley uses it."""
        return {}

    def _launch(self) -> ChildProcess:
        if not self._directory.exists():
            self._user.directory(self._directory)
        (self._directory / "ejabberd.yml").write_text(self._configuration())
        self._port.hand_over()
        mnesia = ("-mnesia", "dir", f'"{self._directory / "mnesia"}"')
        command = (str(self._packages.erl), *ERLANG, "-noinput", *mnesia, "-s", "ejabberd")
        return ChildProcess(
            self.name,
            self._user.command(("env", "--chdir", str(self._directory), *command)),
            environment={
                "ERL_LIBS": str(self._packages.ejabberd.parent),
                "EJABBERD_CONFIG_PATH": str(self._directory / "ejabberd.yml"),
                "EJABBERD_LOG_PATH": str(self._directory / "ejabberd.log"),
                "ERL_CRASH_DUMP_BYTES": "0",
                "HOME": str(self._directory),
                "PATH": os.environ.get("PATH", os.defpath),
                **LIMITS,
            },
        )

    def _configuration(self) -> str:
        return configuration(
            self._profile,
            self._packages.configuration.read_text(),
            listener={"ip": LOOPBACK, "port": self.port},
            database={
                "sql_type": "pgsql",
                "sql_server": LOOPBACK,
                "sql_port": self._postgres.port,
                "sql_database": DATABASE,
                "sql_username": USER,
            },
        )

    def _answers(self) -> bool:
        """Whether it opens a stream, which it does once its modules are loaded."""
        answer = b""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=PROBE_TIMEOUT) as probe:
                probe.sendall(HEADER)
                while FEATURES not in answer and (received := probe.recv(4096)):
                    answer += received
        except OSError:
            return False
        return FEATURES in answer
