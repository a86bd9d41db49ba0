"""How many requests a process serves at once."""

import asyncio
from typing import Any

from foundation.server.gate import Gate
from tests.asgi import Answer, SlowApplication


async def ask(gate: Gate, path: str = "/api/chats") -> Answer:
    answer = Answer()
    await gate({"type": "http", "path": path}, None, answer.send)
    return answer


class TestGate:
    async def test_beyond_its_limit_callers_are_told_to_come_again(self) -> None:
        application = SlowApplication()
        gate = Gate(application, limit=2, free=["/healthz"])
        inside = [asyncio.ensure_future(ask(gate)) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await ask(gate)
        assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, "overloaded", "1")
        application.go.set()
        assert [answer.status for answer in await asyncio.gather(*inside)] == [200, 200]
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
