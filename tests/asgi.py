"""ASGI without a server: what an application has sent, and an application that takes its time."""

import asyncio
import json
from typing import Any


class Answer:
    """The events of one answer. Names of headers are in lower case."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    async def send(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    @property
    def status(self) -> int:
        return int(self.events[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode().lower(): value.decode() for name, value in self.events[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(event.get("body", b"") for event in self.events)

    @property
    def code(self) -> str:
        return str(json.loads(self.body)["code"])


class SlowApplication:
    """Serves as soon as it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
