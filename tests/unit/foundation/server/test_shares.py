"""How many requests of one user a process serves at once."""

import asyncio
import json
from typing import Any

import pytest

from foundation.kernel.ids import UserId
from foundation.rest.addresses import ClientAddress
from foundation.server.shares import WAITING_PER_PLACE, AddressShares, UserShares
from tests.asgi import Answer, SlowApplication


async def ask(
    shares: UserShares, user: str | None, *, path: str = "/api/chats", peer: str = "192.0.2.1", hops: str = ""
) -> Answer:
    answer = Answer()
    headers = [] if user is None else [(b"authorization", f"Bearer {user}".encode())]
    headers += [(b"x-forwarded-for", hops.encode())] if hops else []
    scope = {"type": "http", "path": path, "headers": headers, "client": (peer, 1)}
    await shares(scope, None, answer.send)
    return answer


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


async def let_tasks_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class TestShares:
    async def test_beyond_the_share_requests_wait_and_are_served(self) -> None:
        application = Counting()
        shares = UserShares(application, identify=identify, share=2)
        requests = [asyncio.ensure_future(ask(shares, "ada")) for _ in range(10)]
        await let_tasks_run()
        assert application.now == 2
        application.go.set()
        assert [answer.status for answer in await asyncio.gather(*requests)] == [200] * 10
        assert application.most == 2
        assert shares._shares == {}

    async def test_other_users_and_strangers_do_not_wait(self) -> None:
        application = Counting()
        shares = UserShares(application, identify=identify, share=1)
        callers = ["ada", "ada", "ada", "bob", "invalid", "invalid", None]
        requests = [asyncio.ensure_future(ask(shares, user)) for user in callers]
        await let_tasks_run()
        assert application.now == 5
        application.go.set()
        await asyncio.gather(*requests)

    async def test_a_request_that_waits_too_long_is_refused_and_leaves_the_queue(self) -> None:
        application = Counting()
        shares = UserShares(application, identify=identify, share=1, wait=0.01)
        served = asyncio.ensure_future(ask(shares, "ada"))
        await let_tasks_run()
        refused = await ask(shares, "ada")
        assert (refused.status, json.loads(refused.events[1]["body"])["code"]) == (503, "overloaded")
        application.go.set()
        assert (await served).status == 200
        assert (await ask(shares, "ada")).status == 200
        assert shares._shares == {}

    async def test_a_request_beyond_the_queue_is_refused_after_a_pause(self) -> None:
        application = Counting()
        shares = UserShares(application, identify=identify, share=1, pause=0.05)
        waiting = [asyncio.ensure_future(ask(shares, "ada")) for _ in range(1 + WAITING_PER_PLACE)]
        await let_tasks_run()
        refusal = asyncio.ensure_future(ask(shares, "ada"))
        await let_tasks_run()
        assert not refusal.done()
        answer = await refusal
        assert (answer.status, answer.code, answer.headers["retry-after"]) == (429, "rate_limited", "1")
        application.go.set()
        await asyncio.gather(*waiting)

    async def test_who_ignores_a_429_is_not_served_at_once(self) -> None:
        application = Counting()
        application.status = 429
        application.go.set()
        shares = UserShares(application, identify=identify, share=2, pause=60)
        flood = [asyncio.ensure_future(ask(shares, "ada")) for _ in range(10)]
        await let_tasks_run()
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
        await let_tasks_run()
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
        assert shares._shares == {}

    async def test_probes_are_served_whoever_asks_and_however_many_wait(self) -> None:
        application = Counting()
        shares = by_address(application, free=["/healthz"])
        waiting = [asyncio.ensure_future(ask(shares, user)) for user in ["ada", None] * 50]
        await let_tasks_run()
        assert application.now == 2
        probes = [asyncio.ensure_future(ask(shares, user, path="/healthz")) for user in ("ada", None)]
        await let_tasks_run()
        assert application.now == 4
        application.go.set()
        await asyncio.gather(*waiting, *probes)


def by_address(application: Any, **options: Any) -> UserShares:
    proxy = ClientAddress(["10.0.0.0/8"])
    addresses = AddressShares(1, proxy, is_exempt=lambda address: address == "127.0.0.1")
    return UserShares(application, identify=identify, share=1, addresses=addresses, **options)


class TestAddresses:
    async def count(self, *asked: dict[str, Any]) -> int:
        """How many of these requests, each three times, are in progress at once."""
        application = Counting()
        shares = by_address(application)
        requests = [asyncio.ensure_future(ask(shares, **each)) for each in asked * 3]
        await let_tasks_run()
        count = application.now
        application.go.set()
        await asyncio.gather(*requests)
        assert shares._shares == {}
        return count

    async def test_requests_without_a_user_share_the_places_of_their_address(self) -> None:
        assert await self.count({"user": None}, {"user": "invalid"}) == 1
        assert await self.count({"user": None}, {"user": None, "peer": "192.0.2.2"}) == 2
        assert await self.count({"user": None}, {"user": "ada"}) == 2

    async def test_an_ipv6_network_counts_as_one_address(self) -> None:
        assert await self.count({"user": None, "peer": "2001:db8::1"}, {"user": None, "peer": "2001:db8::2"}) == 1

    async def test_behind_a_proxy_the_forwarded_address_counts(self) -> None:
        proxied = {"user": None, "peer": "10.0.0.1"}
        assert await self.count({**proxied, "hops": "192.0.2.1"}, {**proxied, "hops": "192.0.2.2"}) == 2
        assert await self.count({"user": None, "hops": "192.0.2.5"}, {"user": None, "hops": "192.0.2.6"}) == 1

    async def test_an_exempt_address_has_no_share(self) -> None:
        assert await self.count({"user": None, "peer": "127.0.0.1"}) == 3
