"""What is worth a log line, and how it looks to machines."""

import logging
from datetime import UTC, datetime

import orjson

from foundation.kernel.clock import to_iso


class OnlyUnforeseen(logging.Filter):
    """Django logs every answer from 400 on. A foreseen one was told to its caller; only tracebacks are news."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not hasattr(record, "status_code") or record.exc_info is not None


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `LOG_FORMAT=json`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": to_iso(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()
