"""Log filters and formatters."""

import logging
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from foundation.kernel.clock import to_iso
from foundation.kernel.tracing import TRACEPARENT, trace_id_of

SUSPICIOUS_REQUESTS = "django.security"
MAX_SUSPICIOUS_CHARACTERS = 200
SERVER_ERROR = 500
IDS = ("event", "trace_id", "request_id", "connection_id", "chat_id", "sequence", "message_id")
"""What a line may carry by `extra=…`: the JSON form shows it under these names."""

REQUEST_ID: ContextVar[str] = ContextVar("request_id")
"""The REST request that is being served, also in the threads and tasks that serve it."""


class WithRequestId(logging.Filter):
    """Adds the id of the REST request during which a line is logged, and of its trace, if the caller sent one."""

    def filter(self, record: logging.LogRecord) -> bool:
        if (request_id := REQUEST_ID.get(None)) is not None:
            record.request_id = request_id
        if (traceparent := TRACEPARENT.get()) is not None:
            record.trace_id = trace_id_of(traceparent)
        return True


class OnlyUnforeseen(logging.Filter):
    """Drops Django's log lines for responses from 400 on, unless they carry a traceback.

    A suspicious request, such as one with a malformed `Host` or form, is one short line: its traceback shows nothing
    of ours.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        status: int | None = getattr(record, "status_code", None)
        is_refused = status is not None and status < SERVER_ERROR and record.exc_info is not None
        if is_refused or record.name.startswith(SUSPICIOUS_REQUESTS):
            record.msg, record.args = record.getMessage()[:MAX_SUSPICIOUS_CHARACTERS], ()
            record.exc_info = record.exc_text = None
            return True
        return status is None or record.exc_info is not None


@dataclass(slots=True)
class _Repeats:
    since: float
    passed: int = 0
    dropped: int = 0


class RepeatLimit(logging.Filter):
    """Drops warnings and errors beyond `burst` per `period` from the same line of code and with the same exception.

    The next one that passes says how many were dropped, so that clients cannot fill the log.
    """

    def __init__(self, *, burst: int = 10, period: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._burst, self._period, self._clock = burst, period, clock
        self._lock = threading.Lock()
        self._repeats: dict[tuple[object, ...], _Repeats] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        source = (record.name, record.pathname, record.lineno, record.exc_info and record.exc_info[0])
        with self._lock:
            dropped = self._count(source)
        if dropped is None:
            return False
        if dropped:
            record.msg, record.args = f"{record.getMessage()} (dropped {dropped} lines like this)", ()
        return True

    def _count(self, source: tuple[object, ...]) -> int | None:
        """How many were dropped before this one; None if it is to be dropped as well."""
        now = self._clock()
        repeats = self._repeats.setdefault(source, _Repeats(since=now))
        dropped = 0
        if now - repeats.since >= self._period:
            dropped = repeats.dropped
            repeats.since, repeats.passed, repeats.dropped = now, 0, 0
        if repeats.passed >= self._burst:
            repeats.dropped += 1
            return None
        repeats.passed += 1
        return dropped


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `LOG_FORMAT=json`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": to_iso(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{name: getattr(record, name) for name in IDS if hasattr(record, name)},
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()
