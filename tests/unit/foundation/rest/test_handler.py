"""Django's views on ASGI without its middleware: on the loop or in a thread, whole bodies, problems."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import override_settings
from django.urls import path
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.rest.handler import ApiHandler
from foundation.rest.views import PublicView
from tests.asgi import Answer


def thread_name() -> str:
    return threading.current_thread().name


class ThreadView(PublicView):
    async def get(self, request: Request) -> Response:
        return Response({"thread": thread_name()})

    def post(self, request: Request) -> Response:
        return Response({"thread": thread_name(), "body": request.data})


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(thread_name())


async def stream(request: HttpRequest) -> StreamingHttpResponse:
    async def pieces() -> Any:
        yield b"one "
        yield b"two"

    return StreamingHttpResponse(pieces())


async def broken(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("a secret in a trace")


urlpatterns = [
    path("threads", ThreadView.as_view()),
    path("page", page),
    path("stream", stream),
    path("broken", broken),
]
handler404 = "foundation.rest.problems.not_found"
handler500 = "foundation.rest.problems.server_error"


@pytest.fixture(autouse=True)
def routes() -> Iterator[None]:
    with override_settings(ROOT_URLCONF=__name__):
        yield


async def ask(
    target: str,
    *pieces: bytes,
    query: bytes = b"",
    method: str = "GET",
    leaves: bool = False,
    is_chunked: bool = False,
) -> Answer:
    length = str(sum(map(len, pieces))).encode()
    events = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    events.append({"type": "http.disconnect"} if leaves else {"type": "http.request", "body": b""})
    scope = {
        "type": "http",
        "method": method,
        "path": target,
        "query_string": query,
        "headers": [
            (b"host", b"testserver"),
            (b"content-type", b"application/json"),
            (b"transfer-encoding", b"chunked") if is_chunked else (b"content-length", length),
        ],
    }
    arriving, answer = iter(events), Answer()

    async def receive() -> dict[str, Any]:
        return next(arriving)

    async with asyncio.timeout(10):
        await ApiHandler()(scope, receive, answer.send)
    return answer


class TestThreads:
    async def test_a_coroutine_runs_on_the_loop(self) -> None:
        answer = await ask("/threads")
        assert json.loads(answer.body) == {"thread": thread_name()}

    async def test_other_handlers_run_in_the_threads_of_the_api(self) -> None:
        answer = await ask("/threads", b'{"a": ', b"1}", method="POST")
        body = json.loads(answer.body)
        assert body["body"] == {"a": 1}
        assert body["thread"].startswith("api")

    async def test_pages_do_not_wait_behind_them(self) -> None:
        assert (await ask("/page")).body.startswith(b"page")


class TestAnswers:
    async def test_an_answer_has_its_length(self) -> None:
        answer = await ask("/page")
        assert answer.headers["content-length"] == str(len(answer.body))

    async def test_a_stream_is_sent_piece_by_piece(self) -> None:
        answer = await ask("/stream")
        assert [event.get("body") for event in answer.events[1:]] == [b"one ", b"two", b""]
        assert [event.get("more_body", False) for event in answer.events[1:]] == [True, True, False]

    async def test_an_unknown_path_is_a_problem(self) -> None:
        answer = await ask("/nowhere")
        assert (answer.status, answer.code) == (404, "not_found")

    async def test_a_bug_tells_nothing(self) -> None:
        answer = await ask("/broken")
        assert (answer.status, answer.code) == (500, "internal_error")
        assert b"secret" not in answer.body


class TestQueries:
    async def test_one_of_too_many_parameters_is_malformed(self) -> None:
        answer = await ask("/threads", query=b"&".join([b"a=1"] * (settings.DATA_UPLOAD_MAX_NUMBER_FIELDS + 1)))
        assert (answer.status, answer.code) == (400, "invalid_request")


class TestBodies:
    async def test_one_of_unknown_length_is_read(self) -> None:
        answer = await ask("/threads", b'{"a": ', b"1}", method="POST", is_chunked=True)
        assert json.loads(answer.body)["body"] == {"a": 1}

    async def test_one_that_is_too_large_is_refused_while_it_arrives(self) -> None:
        half = b" " * (settings.MAX_BODY_BYTES // 2 + 1)
        answer = await ask("/threads", half, half, method="POST", leaves=True)
        assert (answer.status, answer.code) == (413, "request_too_large")

    async def test_a_client_that_leaves_before_its_end_is_not_answered(self) -> None:
        assert (await ask("/threads", b"{", method="POST", leaves=True)).events == []
