"""What libraries log while Redis is away."""

import logging
import sys

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from foundation.stores.redis.logs import RedisAwayInOneLine


def record(error: Exception, name: str = "channels_redis.pubsub") -> logging.LogRecord:
    try:
        raise error
    except type(error):
        return logging.LogRecord(name, logging.ERROR, __file__, 1, "Unexpected exception", (), sys.exc_info())


class TestRedisAway:
    @pytest.mark.parametrize("error", [RedisConnectionError("refused"), ConnectionResetError("refused")])
    def test_a_redis_that_is_away_is_one_line_without_a_traceback(self, error: Exception) -> None:
        line = record(error)
        assert RedisAwayInOneLine().filter(line)
        assert (line.getMessage(), line.exc_info) == ("Redis is away (refused)", None)

    def test_a_bug_keeps_its_traceback(self) -> None:
        line = record(KeyError("a bug"))
        assert RedisAwayInOneLine().filter(line)
        assert line.exc_info is not None

    def test_lines_of_others_are_left_alone(self) -> None:
        line = record(RedisConnectionError("refused"), name="delivery.gateway.hub")
        assert RedisAwayInOneLine().filter(line)
        assert line.exc_info is not None
