"""DynamoDB Local: Amazon's own emulator, on SQLite."""

from pathlib import Path
from typing import ClassVar

from engines.dynamodb import DynamoDbEngine
from engines.processes import ChildProcess
from tests.engines.java import DYNAMODB, file_log, java_command, provide_libraries

MAIN = "software.amazon.dynamodb.services.local.main.ServerRunner"


class DynamoDbLocal(DynamoDbEngine):
    """On `data_dir`, or in memory without one. A restart keeps the port.

    It listens on every interface of the machine: it has no option for loopback only.
    """

    ready_within: ClassVar[float] = 60.0  # seconds

    def __init__(self, *, data_dir: Path | None = None) -> None:
        super().__init__(data_dir=data_dir)
        self._log = file_log("dynamodb")

    def _launch(self) -> ChildProcess:
        libraries = provide_libraries(DYNAMODB)
        # Without -sharedDb every access key and region has its own tables.
        arguments = ["-port", str(self.port), "-sharedDb", "-disableTelemetry"]
        arguments += ["-inMemory"] if self._data_dir is None else ["-dbPath", str(self._data_dir)]
        self._port.hand_over()
        command = java_command(libraries, MAIN, *arguments, options={"java.library.path": libraries})
        return ChildProcess(self.name, command, log=self._log)
