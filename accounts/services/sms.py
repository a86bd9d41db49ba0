"""SMS senders: a file for embedded mode, AWS SNS for production."""

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Protocol, TextIO

import orjson
from botocore.exceptions import BotoCoreError, ClientError

from accounts.errors import SmsUnavailable
from foundation.kernel.clock import Clock, to_iso

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient

log = logging.getLogger(__name__)

SENDS_AT_ONCE = 8
RETRY_AFTER = 5.0
"""Seconds after which a client whose message was refused may try again."""


@dataclass(frozen=True, slots=True)
class CodeMessage:
    """A login code to send."""

    to: str
    code: str
    body: str


class SmsSender(Protocol):
    """Sends a message. Raises `SmsUnavailable`. Must log neither the number nor the code."""

    def send(self, message: CodeMessage) -> None: ...


class BoundedSmsSender:
    """Sends a few messages at a time and refuses the others: a provider that hangs holds few of the API's threads."""

    def __init__(self, sender: SmsSender, *, at_once: int = SENDS_AT_ONCE) -> None:
        self._sender = sender
        self._places = BoundedSemaphore(at_once)

    def send(self, message: CodeMessage) -> None:
        if not self._places.acquire(blocking=False):
            log.warning("an SMS is refused: others are still being sent")
            raise SmsUnavailable(retry_after=RETRY_AFTER)
        try:
            self._sender.send(message)
        finally:
            self._places.release()


class FileSmsSender:
    """Prints each message and appends it to a file, from which tests and the demo read the codes."""

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
        """Append with one write, so that lines of several processes never interleave. Only the owner can read them."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch(mode=0o600)
        with self._path.open("ab", buffering=0) as file:
            file.write(line)

    def _print(self, message: CodeMessage) -> None:
        output = self._output or sys.stdout
        output.write(f"SMS to {message.to}: {message.body}\n")
        output.flush()


class SnsSmsSender:
    """Sends messages through AWS SNS, directly to the number."""

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
    """The error code without the error message, which may contain the number."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "Unknown"))
    return type(error).__name__
