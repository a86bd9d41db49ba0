"""What is worth a log line."""

import json
import logging
import sys
from contextvars import copy_context

from foundation.kernel.logs import REQUEST_ID, JsonFormatter, OnlyUnforeseen, RepeatLimit, WithRequestId
from foundation.kernel.tracing import TRACEPARENT


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

    def test_a_suspicious_request_is_one_short_line(self) -> None:
        suspicious = record("Invalid HTTP_HOST header: %s" + "x" * 9000, status_code=400, exc_info=raised())
        suspicious.name = "django.security.DisallowedHost"
        assert OnlyUnforeseen().filter(suspicious)
        assert suspicious.exc_info is None
        assert len(suspicious.getMessage()) == 200

    def test_a_request_that_django_refuses_with_a_traceback_is_one_line(self) -> None:
        refused = record("Unable to parse request body: %s", status_code=400, exc_info=raised())
        assert OnlyUnforeseen().filter(refused)
        assert refused.exc_info is None
        assert refused.getMessage() == "Unable to parse request body: world"


class TestRepeats:
    def test_more_of_the_same_are_dropped_and_counted(self) -> None:
        now = [0.0]
        limit = RepeatLimit(burst=2, period=10.0, clock=lambda: now[0])
        assert [limit.filter(record(f"line {number} of %s")) for number in range(5)] == [
            True,
            True,
            False,
            False,
            False,
        ]
        now[0] = 10.0
        after = record()
        assert limit.filter(after)
        assert after.getMessage() == "hello world (dropped 3 lines like this)"

    def test_other_lines_and_other_errors_are_not_held_against_it(self) -> None:
        limit = RepeatLimit(burst=1)
        assert limit.filter(record())
        assert limit.filter(record(lineno=2))
        assert limit.filter(record(exc_info=raised()))
        assert not limit.filter(record(exc_info=raised()))

    def test_what_is_no_warning_is_not_limited(self) -> None:
        limit = RepeatLimit(burst=1)
        assert all(limit.filter(record(levelno=logging.INFO)) for _ in range(5))


class TestJson:
    def test_one_object_a_line_with_the_traceback_in_it(self) -> None:
        text = JsonFormatter().format(record(exc_info=raised(), created=0.0))
        line = json.loads(text)
        assert (line["at"], line["level"], line["message"]) == ("1970-01-01T00:00:00.000Z", "ERROR", "hello world")
        assert "ValueError: invalid literal" in line["traceback"]
        assert "\n" not in text

    def test_the_ids_of_a_line_are_fields_of_their_own(self) -> None:
        line = json.loads(JsonFormatter().format(record(chat_id="chat_1", message_id="msg_1", sequence=7)))
        assert (line["chat_id"], line["message_id"], line["sequence"]) == ("chat_1", "msg_1", 7)
        assert "connection_id" not in line


class TestRequestIds:
    def test_a_line_that_is_logged_during_a_request_has_its_id(self) -> None:
        def during_a_request() -> logging.LogRecord:
            REQUEST_ID.set("r-1")
            made = record()
            WithRequestId().filter(made)
            return made

        assert json.loads(JsonFormatter().format(copy_context().run(during_a_request)))["request_id"] == "r-1"
        assert "request_id" not in json.loads(JsonFormatter().format(record()))

    def test_and_that_of_the_callers_trace(self) -> None:
        def during_a_request() -> logging.LogRecord:
            TRACEPARENT.set("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
            made = record()
            WithRequestId().filter(made)
            return made

        line = json.loads(JsonFormatter().format(copy_context().run(during_a_request)))
        assert line["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
