"""moto's server: DynamoDB as others read AWS's word, in memory. It does not isolate writers: for one at a time."""

import sys
import time

from engines.dynamodb import DynamoDbEngine
from engines.engine import Pause
from engines.ports import LOOPBACK
from engines.processes import ChildProcess, LineSink, ignore_line


class MotoServer(DynamoDbEngine):
    """In memory whatever happens. A restart keeps the port."""

    def __init__(self, *, log: LineSink = ignore_line, pause: Pause = time.sleep) -> None:
        super().__init__(log=log, pause=pause)

    def _launch(self) -> ChildProcess:
        self._port.hand_over()
        command = [sys.executable, "-m", "moto.server", "--host", LOOPBACK, "--port", str(self._port.number)]
        return ChildProcess(self.name, command, log=self._log)
