"""moto's server: an in-memory emulator of DynamoDB. It does not isolate concurrent writers."""

import sys

from engines.dynamodb import DynamoDbEngine
from engines.ports import LOOPBACK
from engines.processes import ChildProcess


class MotoServer(DynamoDbEngine):
    """Always in memory. A restart keeps the port."""

    def _launch(self) -> ChildProcess:
        self._port.hand_over()
        command = [sys.executable, "-m", "moto.server", "--host", LOOPBACK, "--port", str(self.port)]
        return ChildProcess(self.name, command, log=self._log)
