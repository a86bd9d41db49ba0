"""How many requests of one user a process serves at once."""

import asyncio
import json
from typing import Any

import pytest

from foundation.kernel.ids import UserId
from foundation.server.shares import WAITING_PER_PLACE, UserShares
from tests.unit.foundation.server.test_gate import Answers, SlowApplication


async def ask(shares: UserShares, user: str | None) -> Answers:
    answers = Answers()
    headers = [] if user is None else [(b"authorization", f"Bearer {user}".encode())]
    await shares({"type": "http", "path": "/api/chats", "headers": headers}, None, answers.send)
    return answers


def identify(token: str) -> UserId | None:
    return None if token == "invalid" else UserId(token)


class Counting(SlowApplication):
    """Counts the requests in progress."""

    status = 200

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = self.served = 0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await self.go.wait()
        self.now -= 1
        self.served += 1
        await send({"type": "http.response.start", "status": self.status, "headers": []})


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class TestShares:
    async def test_beyond_the_share_requests_wait_and_are_served(self) -> None:
        application = Counting()
        shares = UserShares(application, identify=identify, share=2)
        requests = [asyncio.ensure_future(ask(shares, "ada")) for _ in range(10)]
        await settle()
        assert application.now == 2
        application.go.set()
        assert [answers.status for answers in await asyncio.gather(*requests)] == [200] * 10
        assert application.most == 2
        assert shares._shares == {}

    async def test_other_users_and_strangers_do_not_wait(self) -> None:
        application = Counting()
        shares = UserShares(application, identify=identify, share=1)
        callers = ["ada", "ada", "ada", "bob", "invalid", "invalid", None]
        requests = [asyncio.ensure_future(ask(shares, user)) for user in callers]
        await settle()
        assert application.now == 5
        application.go.set()
        await asyncio.gather(*requests)

    async def test_a_request_beyond_the_queue_is_refused_after_a_pause(self) -> None:
        application = Counting()
        shares = UserShares(application, identify=identify, share=1, pause=0.05)
        waiting = [asyncio.ensure_future(ask(shares, "ada")) for _ in range(1 + WAITING_PER_PLACE)]
        await settle()
        refusal = asyncio.ensure_future(ask(shares, "ada"))
        await settle()
        assert not refusal.done()
        answers = await refusal
        body = json.loads(answers.events[1]["body"])
        assert (answers.status, body["code"]) == (429, "rate_limited")
        assert (b"retry-after", b"1") in answers.events[0]["headers"]
        application.go.set()
        await asyncio.gather(*waiting)

    async def test_who_ignores_a_429_is_not_served_at_once(self) -> None:
        application = Counting()
        application.status = 429
        application.go.set()
        shares = UserShares(application, identify=identify, share=2, pause=60)
        flood = [asyncio.ensure_future(ask(shares, "ada")) for _ in range(10)]
        await settle()
        assert application.served == 2
        for request in flood:
            request.cancel()
        await asyncio.gather(*flood, return_exceptions=True)

    async def test_a_failure_and_a_caller_who_left_give_their_places_back(self) -> None:
        async def broken(*_: Any) -> None:
            raise ValueError("a bug")

        shares = UserShares(broken, identify=identify, share=1)
        for _ in range(3):
            with pytest.raises(ValueError, match="a bug"):
                await ask(shares, "ada")
        shares = UserShares(SlowApplication(), identify=identify, share=1)
        requests = [asyncio.ensure_future(ask(shares, "ada")) for _ in range(3)]
        await settle()
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
        assert shares._shares == {}
