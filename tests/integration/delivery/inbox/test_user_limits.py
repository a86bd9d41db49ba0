"""The limits of a user on every route, and a user's share of a process."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.test import override_settings

from chats.api.views import INVITATIONS
from foundation.kernel.ids import UserId
from foundation.kernel.loops import shared_loop
from foundation.rest.handler import ApiHandler
from foundation.rest.throttling import READS, WRITES, UserLimits
from foundation.server.shares import UserShares
from foundation.stores.dynamodb import Database
from foundation.stores.redis.limits import Limit
from tests.integration.chats.services import Answer, Services
from tests.rest import user_limits

BURST = 20


@pytest.fixture
def limits(redis_client: "redis.Redis") -> UserLimits:
    return user_limits(redis_client, *(Limit(name, rate=0.001, burst=BURST) for name in (READS, WRITES, INVITATIONS)))


def take(limits: UserLimits, user_id: UserId, costs: dict[str, int]) -> None:
    shared_loop().run(limits.take(user_id, costs))


@pytest.fixture
def limited(services: Services, limits: UserLimits) -> Iterator[Services]:
    with override_settings(ROOT_URLCONF=services.urlconf(limits)):
        yield services


@pytest.fixture
def operations(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every request to DynamoDB."""
    sent: list[str] = []
    wire = database.on_loop.wire
    send = wire.call

    async def call(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        sent.append(operation)
        return await send(operation, request)

    monkeypatch.setattr(wire, "call", call)
    return sent


def refused(answer: Answer) -> bool:
    return answer.status == 429 and answer.body["code"] == "rate_limited" and int(answer.headers["Retry-After"]) >= 1


CHAT = "/api/chats/chat_01KG7Y4R00P5Q6R7S8T9V0W1X2"
MEMBER = f"{CHAT}/members/user_01KG7Y4QZ8N4V6W7X8Y9Z0A1B2"
READING = ["/api/chats", CHAT, f"{CHAT}/members", f"{CHAT}/messages", f"{CHAT}/messages/1", "/api/delivery"]
WRITING = [
    ("POST", "/api/chats"),
    ("PATCH", CHAT),
    ("PUT", f"{CHAT}/mute"),
    ("POST", f"{CHAT}/members"),
    ("PATCH", MEMBER),
    ("DELETE", MEMBER),
    ("POST", f"{CHAT}/messages"),
    ("POST", f"{CHAT}/ack"),
]


class TestRateLimits:
    @pytest.mark.parametrize("path", READING)
    def test_reads_are_limited(self, limited: Services, limits: UserLimits, operations: list[str], path: str) -> None:
        ada, bob = limited.user(), limited.user()
        take(limits, ada.user_id, {READS: BURST})
        operations.clear()
        assert refused(ada.get(path))
        assert operations == []
        assert bob.get(path).status in (200, 404)

    @pytest.mark.parametrize(("method", "path"), WRITING)
    def test_writes_are_limited(
        self, limited: Services, limits: UserLimits, operations: list[str], method: str, path: str
    ) -> None:
        ada, bob = limited.user(), limited.user()
        take(limits, ada.user_id, {WRITES: BURST})
        operations.clear()
        assert refused(ada.call(method, path, {}))
        assert operations == []
        assert bob.call(method, path, {}).status in (404, 422)
        assert ada.get("/api/chats").status == 200

    def test_a_body_that_cannot_be_parsed_costs_too(self, limited: Services) -> None:
        ada = limited.user()
        statuses = [ada.call("POST", "/api/chats", "not an object").status for _ in range(BURST + 1)]
        assert statuses == [422] * BURST + [429]

    def test_members_of_new_groups_count_as_invitations(self, limited: Services) -> None:
        ada, others = limited.user(), [limited.user() for _ in range(BURST)]
        assert ada.create_group(*others[: BURST - 1]).status == 201
        assert ada.create_direct(others[0]).status == 201
        assert refused(ada.create_direct(others[1]))
        assert refused(ada.create_group())

    def test_added_members_count_as_invitations_and_removed_ones_do_not(
        self, limited: Services, limits: UserLimits
    ) -> None:
        ada, bob = limited.user(), limited.user()
        members = f"/api/chats/{ada.create_group(bob).body['chat_id']}/members"
        take(limits, ada.user_id, {INVITATIONS: BURST - 1})
        assert refused(ada.post(members, {"user_id": limited.user().user_id, "action": "add"}))
        assert ada.post(members, {"user_id": bob.user_id, "action": "remove"}).status == 200

    def test_a_group_larger_than_the_limit_takes_all_of_it(self, limited: Services) -> None:
        ada, others = limited.user(), [limited.user() for _ in range(BURST + 1)]
        assert ada.create_group(*others).status == 201
        assert refused(ada.create_group())

    def test_all_processes_share_a_limit(
        self, services: Services, limits: UserLimits, redis_client: "redis.Redis"
    ) -> None:
        ada = services.user()
        other = user_limits(redis_client, *limits._limits.values())
        take(other, ada.user_id, {READS: BURST})
        with override_settings(ROOT_URLCONF=services.urlconf(limits)):
            assert refused(ada.get("/api/chats"))


class BlockedInbox:
    """Answers when it is released, and counts the calls in progress."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.most: Counter[UserId] = Counter()
        self._now: Counter[UserId] = Counter()

    async def list_chats(self, user_id: UserId, **_: Any) -> Any:
        self._now[user_id] += 1
        self.most[user_id] = max(self.most[user_id], self._now[user_id])
        async with asyncio.timeout(20):
            await self.release.wait()
        self._now[user_id] -= 1
        return EmptyPage()


class EmptyPage:
    entries: tuple[()] = ()
    next_cursor = None


class TestShare:
    async def test_a_user_has_a_few_inboxes_in_progress_and_others_do_not_wait(
        self, services: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        inbox, ada, bob = BlockedInbox(), services.ids.user(), services.ids.user()
        monkeypatch.setattr(services, "inbox", inbox)
        with override_settings(ROOT_URLCONF=services.urlconf()):
            application = UserShares(ApiHandler(), identify=UserId, share=3)
            crowd = [asyncio.create_task(read_inbox(application, ada)) for _ in range(30)]
            await until(lambda: inbox.most.get(ada) == 3)
            other = asyncio.create_task(read_inbox(application, bob))
            await until(lambda: inbox.most.get(bob) == 1)
            inbox.release.set()
            assert await other == 200
            assert await asyncio.gather(*crowd) == [200] * 30
        assert inbox.most == {ada: 3, bob: 1}


async def read_inbox(application: Any, user_id: UserId) -> int:
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/chats",
        "query_string": b"",
        "headers": [(b"host", b"testserver"), (b"authorization", f"Bearer {user_id}".encode())],
    }
    answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    disconnected = asyncio.Event()
    requests = iter([{"type": "http.request", "body": b""}])

    async def receive() -> dict[str, Any]:
        for event in requests:
            return event
        await disconnected.wait()
        return {"type": "http.disconnect"}

    await application(scope, receive, answers.put)
    return int((await answers.get())["status"])


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - other tasks change it
            await asyncio.sleep(0.01)
