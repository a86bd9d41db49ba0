"""An ASGI application that serves Django's views without its middleware, signals and threads per request (ADR-026).

Asynchronous views run on the event loop, the others in a bounded pool. Django's own handler serves `/admin/`, which
needs sessions and a database.
"""

from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.exception import response_for_exception
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.template.response import SimpleTemplateResponse
from django.urls import get_resolver

from foundation.kernel.errors import Malformed, TooLarge
from foundation.rest.problems import problem
from foundation.rest.threads import PAGE_THREADS, run_in_thread

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class ClientLeft(Exception):
    """The client closed the connection before its request had arrived."""


class ApiHandler:
    """Serves the routes of `ROOT_URLCONF`.

    A request that was received is served to its end, also if its client leaves meanwhile.
    """

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            body = await _read(receive)
        except ClientLeft:
            return
        await _send(send, await self._respond(scope, body))

    async def respond(self, request: HttpRequest) -> HttpResponseBase:
        """The response of the request's view. An exception becomes the response of its error handler."""
        try:
            return await self._call_view(request)
        except Exception as error:  # noqa: BLE001 - Django logs what is unforeseen and answers with a 500
            return response_for_exception(request, error)

    async def _respond(self, scope: dict[str, Any], body: bytes) -> HttpResponseBase:
        if len(body) > settings.MAX_BODY_BYTES:
            return problem(TooLarge(f"The body is larger than {settings.MAX_BODY_BYTES} bytes"))
        try:
            request = ASGIRequest(scope, BytesIO(body))
        except UnicodeDecodeError:
            return problem(Malformed())
        # DRF takes a body without a length, as a chunked one is, for an empty one.
        request.META.setdefault("CONTENT_LENGTH", str(len(body)))
        return await self.respond(request)

    async def _call_view(self, request: HttpRequest) -> HttpResponseBase:
        match = request.resolver_match = get_resolver().resolve(request.path_info)
        view, args, kwargs = match
        if iscoroutinefunction(view):
            response = await view(request, *args, **kwargs)
        else:
            response = await run_in_thread(PAGE_THREADS, view, request, *args, **kwargs)
        return response.render() if isinstance(response, SimpleTemplateResponse) else response


async def _read(receive: Receive) -> bytes:
    """The body, or of one that is too large a little more than the limit. Raises `ClientLeft`."""
    event = await receive()
    if event["type"] == "http.request" and not event.get("more_body"):
        body: bytes = event.get("body", b"")
        return body
    pieces: list[bytes] = []
    size = 0
    while event["type"] == "http.request":
        pieces.append(event.get("body", b""))
        size += len(pieces[-1])
        if not event.get("more_body") or size > settings.MAX_BODY_BYTES:
            return b"".join(pieces)
        event = await receive()
    raise ClientLeft


async def _send(send: Send, response: HttpResponseBase) -> None:
    headers = [(name.encode("ascii"), value.encode("latin1")) for name, value in response.items()]
    headers += [(b"Set-Cookie", cookie.output(header="").strip().encode()) for cookie in response.cookies.values()]
    if isinstance(response, StreamingHttpResponse):
        try:
            await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
            async for piece in response:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            response.close()
    elif isinstance(response, HttpResponse):
        body = response.content
        if not response.has_header("Content-Length"):
            headers.append((b"Content-Length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": body})
