"""DynamoDB for the default run: dynoxide with its file under the data directory, else moto's server."""

import importlib.util
import sys
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar

from config.embedded.dynoxide import provide_dynoxide
from config.embedded.engine import Engine, Pause
from config.embedded.errors import EngineMissing
from config.embedded.ports import LOOPBACK, ReservedPort
from config.embedded.probe import post_status
from config.embedded.processes import ChildProcess, LineSink, ignore_line

REGION = "us-east-1"
FILE_NAME = "dynamodb.sqlite"
# The engines read the signature's form and do not verify it.
LIST_TABLES = {
    "Content-Type": "application/x-amz-json-1.0",
    "X-Amz-Target": "DynamoDB_20120810.ListTables",
    "X-Amz-Date": "20260101T000000Z",
    "Authorization": (
        f"AWS4-HMAC-SHA256 Credential=embedded/20260101/{REGION}/dynamodb/aws4_request, "
        "SignedHeaders=host;x-amz-date;x-amz-target, Signature=0"
    ),
}


class DynamoDbEngine(Engine):
    """dynoxide on `data_dir`, or in memory without one; every commit is on disk before it is answered.

    Without dynoxide it is moto's server, in memory whatever the directory. A restart keeps the port.
    """

    name: ClassVar[str] = "dynamodb"

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        provide_program: Callable[[LineSink, Pause], Path | None] = provide_dynoxide,
        log: LineSink = ignore_line,
        pause: Pause = time.sleep,
    ) -> None:
        super().__init__(log=log, pause=pause)
        self._data_dir = data_dir
        self._provide_program = provide_program
        self._port = ReservedPort()

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self._port.number}"

    def environment(self) -> dict[str, str]:
        return {
            "DYNAMODB_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "embedded",
            "AWS_SECRET_ACCESS_KEY": "embedded",
        }

    def close(self) -> None:
        super().close()
        self._port.release()

    def _launch(self) -> ChildProcess:
        program = self._provide_program(self._log, self._pause)
        command = self._moto_command() if program is None else self._dynoxide_command(program)
        self._port.hand_over()
        return ChildProcess(self.name, command, log=self._log)

    def _dynoxide_command(self, program: Path) -> list[str]:
        command = [str(program), "--host", LOOPBACK, "--port", str(self._port.number)]
        if self._data_dir is not None:
            command += ["--db-path", str(self._data_dir / FILE_NAME)]
        return command

    def _moto_command(self) -> list[str]:
        if importlib.util.find_spec("moto") is None:
            raise EngineMissing(
                "No DynamoDB engine was found: install dynoxide (`npm ci`), "
                "or moto's server (`pip install -r requirements-embedded.txt`)."
            )
        self._log("dynoxide is not available: using moto's server, which is slow and forgets everything at the end.")
        return [sys.executable, "-m", "config.embedded.moto_server", LOOPBACK, str(self._port.number)]

    def _answers(self) -> bool:
        return post_status(self._port.number, body="{}", headers=LIST_TABLES) == HTTPStatus.OK
