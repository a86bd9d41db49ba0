"""How a code reaches a phone: one small interface, and the two senders behind it."""

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol, TextIO

import orjson
from botocore.exceptions import BotoCoreError, ClientError

from accounts.errors import SmsUnavailable
from foundation.kernel.clock import Clock, to_iso

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CodeMessage:
    """A login code on its way to its number."""

    to: str
    code: str
    body: str


class SmsSender(Protocol):
    """Hands a message over. Raises `SmsUnavailable` where it cannot; logs neither number nor code."""

    def send(self, message: CodeMessage) -> None: ...


class FileSmsSender:
    """Embedded: prints each message, and appends it to a file that tests and demos read the codes from."""

    def __init__(self, path: Path, *, clock: Clock, output: TextIO | None = None) -> None:
        self._path = path
        self._clock = clock
        self._output = output
        self._lock = Lock()

    def send(self, message: CodeMessage) -> None:
        line = orjson.dumps(
            {"to": message.to, "body": message.body, "code": message.code, "at": to_iso(self._clock.now())},
            option=orjson.OPT_APPEND_NEWLINE,
        )
        try:
            with self._lock:
                self._append(line)
        except OSError as error:
            raise SmsUnavailable from error
        self._print(message)

    def _append(self, line: bytes) -> None:
        """One write, so that lines of several processes never mix. Only the owner may read the codes."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch(mode=0o600)
        with self._path.open("ab", buffering=0) as file:
            file.write(line)

    def _print(self, message: CodeMessage) -> None:
        output = self._output or sys.stdout
        output.write(f"SMS to {message.to}: {message.body}\n")
        output.flush()


class SnsSmsSender:
    """AWS SNS, direct to the number."""

    def __init__(self, client: "SNSClient") -> None:
        self._client = client

    def send(self, message: CodeMessage) -> None:
        try:
            self._client.publish(
                PhoneNumber=message.to,
                Message=message.body,
                MessageAttributes={"AWS.SNS.SMS.SMSType": {"DataType": "String", "StringValue": "Transactional"}},
            )
        except (BotoCoreError, ClientError) as error:
            log.warning("SNS did not take an SMS: %s", _reason(error))
            raise SmsUnavailable from error


def _reason(error: Exception) -> str:
    """AWS's code for the failure; its sentence may repeat the number."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "Unknown"))
    return type(error).__name__
