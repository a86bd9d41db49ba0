"""What is worth a log line."""

import json
import logging
import sys

from foundation.kernel.logs import JsonFormatter, OnlyUnforeseen


def record(message: str = "hello %s", **more: object) -> logging.LogRecord:
    made = logging.LogRecord("parley", logging.ERROR, __file__, 1, message, ("world",), None)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def raised() -> object:
    try:
        int("a reason")
    except ValueError:
        return sys.exc_info()
    return None


class TestFilter:
    def test_an_answer_that_was_foreseen_is_no_news(self) -> None:
        assert not OnlyUnforeseen().filter(record(status_code=503))

    def test_everything_else_is(self) -> None:
        assert OnlyUnforeseen().filter(record())
        assert OnlyUnforeseen().filter(record(status_code=500, exc_info=raised()))


class TestJson:
    def test_one_object_a_line_with_the_traceback_in_it(self) -> None:
        text = JsonFormatter().format(record(exc_info=raised(), created=0.0))
        line = json.loads(text)
        assert (line["at"], line["level"], line["message"]) == ("1970-01-01T00:00:00.000Z", "ERROR", "hello world")
        assert "ValueError: invalid literal" in line["traceback"]
        assert "\n" not in text
