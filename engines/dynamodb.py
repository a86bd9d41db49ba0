"""DynamoDB as an engine: `dynamolite`, with its file in the data directory."""

import importlib.util
import sys
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar

from engines.dynamolite.delay import AnswerDelay
from engines.engine import OnePortEngine
from engines.errors import EngineMissing
from engines.health import post_status
from engines.ports import LOOPBACK
from engines.processes import ChildProcess

REGION = "us-east-1"
FILE_NAME = "dynamolite.sqlite"
# Checked before the start, for an error message instead of a traceback.
PACKAGES = ("httptools", "uvloop")
# Emulators parse the signature and do not verify it.
LIST_TABLES = {
    "Content-Type": "application/x-amz-json-1.0",
    "X-Amz-Target": "DynamoDB_20120810.ListTables",
    "X-Amz-Date": "20260101T000000Z",
    "Authorization": (
        f"AWS4-HMAC-SHA256 Credential=embedded/20260101/{REGION}/dynamodb/aws4_request, "
        "SignedHeaders=host;x-amz-date;x-amz-target, Signature=0"
    ),
}


class DynamoDbEngine(OnePortEngine):
    """On `data_dir`, where every write is on disk before its response; in memory without one.

    A restart keeps the port. `delay` makes its answers wait; a change counts from the next start.
    """

    name: ClassVar[str] = "dynamodb"

    def __init__(self, *, data_dir: Path | None = None, delay: AnswerDelay | None = None) -> None:
        super().__init__()
        self.delay = delay
        self._data_dir = data_dir

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def environment(self) -> dict[str, str]:
        return {
            "DYNAMODB_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "embedded",
            "AWS_SECRET_ACCESS_KEY": "embedded",
        }

    def _launch(self) -> ChildProcess:
        if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
            raise EngineMissing(
                f"DynamoDB's engine cannot start without {' and '.join(missing)}: "
                "run `pip install -r requirements-embedded.txt`."
            )
        command = [sys.executable, "-m", "engines.dynamolite", "--host", LOOPBACK]
        command += ["--port", str(self.port)]
        if self._data_dir is not None:
            command += ["--file", str(self._data_dir / FILE_NAME)]
        if self.delay is not None:
            command += ["--delay", str(self.delay)]
        self._port.hand_over()
        return ChildProcess(self.name, command, log=self._log)

    def _answers(self) -> bool:
        return post_status(self.port, body="{}", headers=LIST_TABLES) == HTTPStatus.OK
