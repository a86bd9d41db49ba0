"""Log filters and formatters."""

import logging
from datetime import UTC, datetime

import orjson

from foundation.kernel.clock import to_iso


class OnlyUnforeseen(logging.Filter):
    """Drops Django's log lines for responses from 400 on, unless they carry a traceback."""

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
