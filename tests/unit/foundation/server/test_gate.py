"""How many requests a process serves at once."""

import asyncio
import json
from typing import Any

from foundation.server.gate import Gate


class Answers:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    async def send(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    @property
    def status(self) -> int:
        return int(self.events[0]["status"])


class SlowApplication:
    """Serves as soon as it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})


async def ask(gate: Gate, path: str = "/api/chats") -> Answers:
    answers = Answers()
    await gate({"type": "http", "path": path}, None, answers.send)
    return answers


class TestGate:
    async def test_beyond_its_limit_callers_are_told_to_come_again(self) -> None:
        application = SlowApplication()
        gate = Gate(application, limit=2, free=["/healthz"])
        inside = [asyncio.ensure_future(ask(gate)) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await ask(gate)
        body = json.loads(refused.events[1]["body"])
        assert (refused.status, body["code"]) == (503, "overloaded")
        assert (b"retry-after", b"1") in refused.events[0]["headers"]
        application.go.set()
        assert [answers.status for answers in await asyncio.gather(*inside)] == [200, 200]
        assert (await ask(gate)).status == 200

    async def test_how_the_process_is_can_always_be_asked(self) -> None:
        application = SlowApplication()
        gate = Gate(application, limit=0, free=["/healthz"])
        application.go.set()
        assert (await ask(gate, "/healthz")).status == 200
        assert (await ask(gate)).status == 503

    async def test_a_failure_gives_its_place_back(self) -> None:
        async def broken(*_: Any) -> None:
            raise ValueError("a bug")

        gate = Gate(broken, limit=1)
        for _ in range(3):
            results = await asyncio.gather(ask(gate), return_exceptions=True)
            assert [type(result) for result in results] == [ValueError]
