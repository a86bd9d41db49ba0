"""Log lines for machines: one JSON object a line."""

import logging
from datetime import UTC, datetime

import orjson

from config.kernel.clock import to_iso


class JsonFormatter(logging.Formatter):
    """`LOG_FORMAT=json`."""

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
