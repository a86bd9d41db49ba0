"""A WebSocket frame by frame, for tests that need to see more than the reference client shows."""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from parley_client import Client
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.e2e.earlier.client import Client as EarlierClient
from tests.e2e.system import Device, System, Web

RECEIVE_TIMEOUT = 20.0
Frame = dict[str, Any]


class Socket:
    """An open connection. `frames` is everything that has been received, in order."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.frames: list[Frame] = []

    @property
    def messages(self) -> list[Frame]:
        """Every message pushed so far, alone or in a batch."""
        found: list[Frame] = []
        for frame in self.frames:
            if frame["type"] == "message":
                found.append(frame)
            elif frame["type"] == "message_batch":
                found += frame["messages"]
        return found

    async def write(self, type_: str, **fields: Any) -> None:
        await self.connection.send(json.dumps({"type": type_, **fields}))

    async def send(self, chat_id: str, content: str) -> Frame:
        """Send a message and return its `ack`."""
        await self.write("send_message", client_message_id=str(uuid.uuid4()), chat_id=chat_id, content=content)
        return await self.receive("ack")

    async def receive(self, type_: str, *, within: float = RECEIVE_TIMEOUT) -> Frame:
        """The next frame of this type; earlier ones are kept in `frames`. Fails on an error frame of another type."""
        async with asyncio.timeout(within):
            while True:
                frame = json.loads(await self.connection.recv())
                self.frames.append(frame)
                if frame["type"] == type_:
                    return dict(frame)
                assert frame["type"] != "error", frame

    async def receive_until(self, condition: Callable[[], bool], *, within: float = RECEIVE_TIMEOUT) -> None:
        async with asyncio.timeout(within):
            while not condition():
                self.frames.append(json.loads(await self.connection.recv()))

    async def sync(self, chat_id: str, last_acked_sequence: int = 0, **fields: Any) -> Frame:
        await self.write("sync_request", chat_id=chat_id, last_acked_sequence=last_acked_sequence, **fields)
        return await self.receive("sync_batch")

    async def catch_up_with_server(self) -> None:
        """Return when every frame that the gateway has sent so far was received."""
        await self.write("heartbeat")
        await self.receive("heartbeat_ack")

    async def closed_with(self, *, within: float = RECEIVE_TIMEOUT) -> int | None:
        """Read until the server ends the connection; its close code, or None without a close frame."""
        async with asyncio.timeout(within):
            try:
                while True:
                    self.frames.append(json.loads(await self.connection.recv()))
            except ConnectionClosed as closed:
                return closed.rcvd.code if closed.rcvd else None


class opened:  # noqa: N801 - reads as a verb: `async with opened(web, device) as socket`
    """A device's connection, with its `connected` frame received."""

    def __init__(
        self,
        web: Web,
        device: Device,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        headers = {"Authorization": f"Bearer {token or device.token}", **(headers or {})}
        self._connecting = connect(web.socket_url, additional_headers=headers, compression=None, **options)

    async def __aenter__(self) -> Socket:
        socket = Socket(await self._connecting.__aenter__())
        await socket.receive("connected")
        return socket

    async def __aexit__(self, *details: Any) -> None:
        await self._connecting.__aexit__(*details)


def listeners(system: System) -> int:
    """How many gateways listen to the control channel."""
    ((_, count),) = system.redis_client.pubsub_numsub("asgi__group__control")
    return int(count)


async def eventually(condition: Callable[[], bool], *, within: float = RECEIVE_TIMEOUT) -> None:
    """Poll the condition until it holds."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - the condition is mostly in another process
            await asyncio.sleep(0.01)


async def all_connected(clients: Sequence[Client | EarlierClient]) -> None:
    await together(*(client.connected.wait() for client in clients))


async def together(*work: Awaitable[Any], within: float = 60.0) -> list[Any]:
    async with asyncio.timeout(within):
        return list(await asyncio.gather(*work))


def is_dense(messages: Sequence[Frame]) -> bool:
    return [message["sequence"] for message in messages] == list(range(1, len(messages) + 1))
