"""A log filter: libraries log a Redis that is away with a traceback, which shows nothing of ours."""

import logging

from foundation.stores.redis.client import AWAY

LIBRARY = "channels_redis"


class RedisAwayInOneLine(logging.Filter):
    """Names the error in the line instead. Other errors keep their traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if record.name.startswith(LIBRARY) and isinstance(error, AWAY):
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            record.msg, record.args = f"Redis is away ({error})", ()
            record.exc_info = record.exc_text = None
        return True
