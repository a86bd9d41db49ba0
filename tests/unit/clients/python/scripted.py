"""A server that follows a script: WebSocket handlers in turn, and answers to GET requests by path."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from parley_client import Client
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

Handler = Callable[[ServerConnection], Awaitable[None]]
HELLO = {"type": "connected", "connection_id": "c", "user_id": "ada", "session_id": "s", "heartbeat_interval": 0.02}


async def write(socket: ServerConnection, **frame: Any) -> None:
    await socket.send(json.dumps(frame))


async def read(socket: ServerConnection, kind: str) -> dict[str, Any]:
    """Return the next frame of this kind and skip the others."""
    while True:
        frame: dict[str, Any] = json.loads(await socket.recv())
        if frame["type"] == kind:
            return frame


async def answer(socket: ServerConnection, kind: str, *, sequence: int | None, duplicate: bool = False) -> None:
    """Acknowledge the next frame of this kind."""
    draft = await read(socket, kind)
    about = {"client_message_id": draft["client_message_id"], "chat_id": draft["chat_id"]}
    await write(socket, type="ack", message_id="m", sequence=sequence, created_at="now", duplicate=duplicate, **about)


@asynccontextmanager
async def server(*handlers: Handler, pages: Mapping[str, Any] | None = None) -> AsyncIterator[str]:
    """Serve each connection with the next handler; the last one repeats. A page that is a callable is called."""
    remaining = list(handlers)

    async def handle(socket: ServerConnection) -> None:
        await write(socket, **HELLO)
        await (remaining.pop(0) if len(remaining) > 1 else remaining[0])(socket)

    async def get(connection: ServerConnection, request: Request) -> Response | None:
        page = (pages or {}).get(request.path.partition("?")[0])
        if page is None:
            return None
        body = await page() if callable(page) else page
        return connection.respond(HTTPStatus.OK, json.dumps(body))

    async with serve(handle, "127.0.0.1", 0, process_request=get) as listening:
        yield f"ws://127.0.0.1:{listening.sockets[0].getsockname()[1]}/ws"


def client(url: str, **options: Any) -> Client:
    return Client(url, **{"token": "t", "first_pause": 0.01, "longest_pause": 0.02, **options})


async def becomes(condition: Callable[[], bool]) -> None:
    """Poll until the condition holds. Raises `TimeoutError`."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0.01)
