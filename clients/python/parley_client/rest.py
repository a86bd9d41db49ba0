"""Requests to the REST API with the standard library, in a thread."""

import asyncio
import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

TIMEOUT_SECONDS = 20.0


class RequestFailed(Exception):
    """The server answered with an error. `code` is stable; `status` is the HTTP status."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.status = status
        self.code = code


def base_of(socket_url: str) -> str:
    """The address of the API beside a WebSocket: `ws://host/ws` → `http://host`."""
    return "http" + socket_url.removeprefix("ws").removesuffix("/ws")


async def request(
    base: str, method: str, path: str, *, token: str, query: Mapping[str, Any] | None = None, body: Any = None
) -> Any:
    """The JSON of the answer. Raises `RequestFailed`, and `OSError` without an answer."""
    url = f"{base}{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    return await asyncio.to_thread(_send, Request(url, data, headers, method=method))  # noqa: S310 - the caller's own server


def _send(prepared: Request) -> Any:
    try:
        with urlopen(prepared, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - the caller's own server
            content = answer.read()
    except HTTPError as error:
        raise _failure(error) from error
    except HTTPException as error:
        raise ConnectionError("the answer broke off") from error
    return json.loads(content) if content else None


def _failure(error: HTTPError) -> RequestFailed:
    try:
        problem = json.loads(error.read())
    except (ValueError, HTTPException):
        problem = {}
    return RequestFailed(error.code, problem.get("code", "internal_error"), problem.get("detail", error.reason))
