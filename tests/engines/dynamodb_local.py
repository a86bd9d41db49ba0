"""DynamoDB Local: Amazon's own emulator, on SQLite."""

import time
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar

from config.embedded.dynamodb import LIST_TABLES, REGION
from config.embedded.engine import Engine, Pause
from config.embedded.ports import LOOPBACK, ReservedPort
from config.embedded.probe import post_status
from config.embedded.processes import ChildProcess, LineSink, ignore_line
from tests.engines.java import DYNAMODB, file_log, java_command, provide_libraries

MAIN = "software.amazon.dynamodb.services.local.main.ServerRunner"


class DynamoDbLocal(Engine):
    """On `data_dir`, or in memory without one. A restart keeps the port.

    It listens on every interface of the machine: there is no option to stay on loopback.
    """

    name: ClassVar[str] = "dynamodb"
    ready_within: ClassVar[float] = 60.0

    def __init__(self, *, data_dir: Path | None = None, log: LineSink = ignore_line, pause: Pause = time.sleep) -> None:
        super().__init__(log=file_log("dynamodb", log), pause=pause)
        self._data_dir = data_dir
        self._port = ReservedPort()

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self._port.number}"

    def environment(self) -> dict[str, str]:
        return {
            "DYNAMODB_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
        }

    def close(self) -> None:
        super().close()
        self._port.release()

    def _launch(self) -> ChildProcess:
        libraries = provide_libraries(DYNAMODB)
        # One database for all: otherwise every access key and region sees tables of its own.
        arguments = ["-port", str(self._port.number), "-sharedDb", "-disableTelemetry"]
        arguments += ["-inMemory"] if self._data_dir is None else ["-dbPath", str(self._data_dir)]
        self._port.hand_over()
        command = java_command(libraries, MAIN, *arguments, options={"java.library.path": libraries})
        return ChildProcess(self.name, command, log=self._log)

    def _answers(self) -> bool:
        return post_status(self._port.number, body="{}", headers=LIST_TABLES) == HTTPStatus.OK
