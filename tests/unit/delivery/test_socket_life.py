"""One socket: when it is overdue, frames behind a token, and the bound on requests in flight."""

import asyncio
import itertools
import json
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from channels.exceptions import StopConsumer

from chats.errors import ChatNotFound
from delivery.gateway.closing import Close
from delivery.gateway.consumer import HEARTBEAT_INTERVAL, GatewayConsumer, GatewayParts
from delivery.gateway.pace import CONNECTIONS, PART, ConnectPace, FramePace
from delivery.gateway.serving import MAX_REQUESTS_IN_FLIGHT, MAX_SYNCS_AT_ONCE, ConnectionRequests, Services
from foundation.kernel.caller import Caller
from foundation.kernel.ids import IdFactory, SessionId, UserId
from foundation.rest.origins import AllowedOrigins
from foundation.server.extension import FRAME_BURST, FRAME_RATE
from foundation.stores.redis.limits import Limit
from messaging.services.history import Page
from tests.doubles import SettableClock

CHAT = "chat_01HQX000000000000000000000"
TOKEN_GRACE = 60.0


class FakeHub:
    """Accepts every socket."""

    gateway_id = "gw-test"
    draining = False

    async def start(self) -> None: ...

    async def add(self, socket: object) -> None: ...

    async def remove(self, socket: object) -> None: ...


class Connection:
    """A socket of Ada's, connected to a server whose committer never answers."""

    def __init__(self, *, pace: ConnectPace | None = None) -> None:
        self.verified = 0
        self.clock = SettableClock()
        self.sent: list[dict[str, Any]] = []
        self.submitted = 0
        self.pages: list[asyncio.Future[Page]] = []
        self.parts = GatewayParts(
            hub=FakeHub(),  # type: ignore[arg-type]
            pace=pace or ConnectPace(Limit("connect", rate=1, burst=1), identify=lambda _: None),
            services=Services(
                committer=Mock(submit=self.submit),
                history=Mock(ask=self.ask),
                marks=Mock(),
                typing=Mock(),
                watchers=Mock(),
                clock=self.clock,
            ),
            verify=self.verify,
            allowed_origins=AllowedOrigins(()),
            allowed_hosts=(),
            token_grace=TOKEN_GRACE,
            ids=IdFactory(self.clock),
            clock=self.clock,
        )
        self.consumer = GatewayConsumer(self.parts)
        self.consumer.scope = {"headers": [(b"authorization", b"Bearer token")]}
        self.consumer.base_send = self.send

    @property
    def requests(self) -> ConnectionRequests:
        return self.consumer._requests

    async def verify(self, token: str) -> Caller:
        self.verified += 1
        expires_at = self.clock.now() + timedelta(minutes=15)
        return Caller(UserId("user_ada"), SessionId("sess_ada"), expires_at)

    def submit(self, draft: object) -> "asyncio.Future[Any]":
        self.submitted += 1
        return asyncio.get_running_loop().create_future()

    def ask(self, chat_id: str, user_id: str, window: object) -> "asyncio.Future[Page]":
        self.pages.append(asyncio.get_running_loop().create_future())
        return self.pages[-1]

    async def send(self, event: dict[str, Any]) -> None:
        self.sent.append(event)

    async def connect(self) -> float:
        await self.consumer.websocket_connect({})
        return asyncio.get_running_loop().time()

    def overdue(self, now: float) -> Close | None:
        seconds, close = self.consumer.overdue_in(now)
        return close if seconds < 0 else None

    async def frames(self) -> list[dict[str, Any]]:
        for _ in range(3):
            await asyncio.sleep(0)
        return [json.loads(event["text"]) for event in self.sent if event["type"] == "websocket.send"]


@pytest.fixture
def connection() -> Connection:
    return Connection()


class TestPace:
    async def test_a_user_who_connects_too_fast_is_closed_before_the_session_is_read(self) -> None:
        now = [0.0]
        limit = Limit("connect", rate=1, burst=2)
        pace = ConnectPace(limit, identify=lambda _: UserId("user_ada"), monotonic=lambda: now[0])
        for _ in range(2):
            await Connection(pace=pace).connect()
        refused = Connection(pace=pace)
        with pytest.raises(StopConsumer):
            await refused.connect()
        assert refused.sent[-1] == {"type": "websocket.close", "code": 4429}
        assert refused.verified == 0
        now[0] = 1.0
        await Connection(pace=pace).connect()


class TestFramePace:
    def test_the_connections_of_a_user_share_a_pace_and_each_gets_some(self) -> None:
        now = [0.0]
        pace = FramePace(monotonic=lambda: now[0])
        user, other = UserId("user_ada"), UserId("user_bob")
        granted = [pace.grant(user, FRAME_BURST) for _ in range(100)]
        assert granted[0] == FRAME_BURST
        assert all(granted)
        assert sum(granted) <= CONNECTIONS * FRAME_BURST
        assert pace.grant(other, FRAME_BURST) == FRAME_BURST
        assert pace.grant(user, FRAME_BURST) < 1
        now[0] = 1.0
        assert FRAME_RATE * 0.9 < pace.grant(user, FRAME_BURST) <= CONNECTIONS * FRAME_RATE

    def test_the_users_seen_last_are_remembered(self) -> None:
        pace = FramePace(capacity=1, monotonic=lambda: 0.0)
        first, second = UserId("user_ada"), UserId("user_bob")
        assert [pace.grant(user, FRAME_BURST) for user in (first, first, second, first)] == [
            FRAME_BURST,
            FRAME_BURST * (CONNECTIONS - 1) / PART,
            FRAME_BURST,
            FRAME_BURST,
        ]


class TestOverdue:
    async def test_two_missed_heartbeats(self, connection: Connection) -> None:
        await connection.connect()
        now = connection.requests.last_frame_at
        assert connection.overdue(now + 2 * HEARTBEAT_INTERVAL - 1) is None
        assert connection.overdue(now + 2 * HEARTBEAT_INTERVAL + 1) is Close.HEARTBEAT_MISSED

    async def test_any_frame_counts_as_a_heartbeat(self, connection: Connection) -> None:
        await connection.connect()
        connection.requests.last_frame_at -= 1000
        await connection.consumer.websocket_receive({"text": '{"type": "heartbeat"}'})
        assert connection.overdue(asyncio.get_running_loop().time()) is None
        assert [frame["type"] for frame in await connection.frames()] == ["connected", "heartbeat_ack"]

    async def test_an_expired_token_closes_the_socket_after_the_grace_unless_there_is_a_new_one(
        self, connection: Connection
    ) -> None:
        now = await connection.connect()
        connection.clock.advance(minutes=15, seconds=TOKEN_GRACE - 1)
        assert connection.overdue(now) is None
        connection.clock.advance(seconds=2)
        assert connection.overdue(now) is Close.UNAUTHENTICATED
        await connection.consumer.websocket_receive({"text": '{"type": "authenticate", "access_token": "new"}'})
        assert connection.overdue(now) is None

    async def test_it_is_closed_when_it_is_overdue_and_not_checked_before(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("delivery.gateway.consumer.OVERDUE_MARGIN", 0.0)
        monkeypatch.setattr("delivery.gateway.consumer.HEARTBEAT_INTERVAL", 0.02)
        await connection.connect()
        async with asyncio.timeout(10):
            while connection.sent[-1]["type"] != "websocket.close":  # noqa: ASYNC110 - a list, not an event
                await asyncio.sleep(0.01)
        assert connection.sent[-1] == {"type": "websocket.close", "code": int(Close.HEARTBEAT_MISSED)}

    async def test_its_timer_ends_with_it(self, connection: Connection) -> None:
        await connection.connect()
        timer = connection.consumer._overdue_check
        await connection.consumer._leave()
        assert timer is not None
        assert timer.cancelled()

    async def test_frames_behind_a_token_wait_until_it_is_verified(self, connection: Connection) -> None:
        await connection.connect()
        assert connection.requests.on_frame('{"type": "authenticate", "access_token": "new"}')
        assert not connection.requests.on_frame('{"type": "heartbeat"}')
        await connection.consumer.websocket_receive({"text": '{"type": "heartbeat"}'})
        assert connection.requests.on_frame('{"type": "heartbeat"}')
        assert [frame["type"] for frame in await connection.frames()] == ["connected", "heartbeat_ack", "heartbeat_ack"]

    async def test_a_frame_that_cannot_be_handled_ends_its_socket_alone(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        await connection.connect()
        monkeypatch.setattr("delivery.gateway.serving.parse", Mock(side_effect=ZeroDivisionError))
        assert connection.requests.on_frame('{"type": "heartbeat"}')
        await connection.frames()
        assert connection.sent[-1] == {"type": "websocket.close", "code": int(Close.INTERNAL)}
        assert "ZeroDivisionError" in caplog.text

    async def test_no_frame_overtakes_one_that_waits_behind_a_token(self, connection: Connection) -> None:
        await connection.connect()
        assert connection.requests.on_frame('{"type": "authenticate", "access_token": "new"}')
        assert connection.requests._verifying is not None
        await connection.requests._verifying
        assert not connection.requests.on_frame('{"type": "heartbeat"}')


class TestRequestsInFlight:
    async def test_a_request_beyond_the_limit_is_refused_as_retryable_and_not_submitted(
        self, connection: Connection
    ) -> None:
        await connection.connect()
        frame = json.dumps({"type": "send_message", "client_message_id": "c", "chat_id": CHAT, "content": "x"})
        for _ in range(MAX_REQUESTS_IN_FLIGHT + 1):
            await connection.consumer.websocket_receive({"text": frame})
        assert connection.submitted == MAX_REQUESTS_IN_FLIGHT
        last = (await connection.frames())[-1]
        assert (last["type"], last["retryable"], last["client_message_id"]) == ("error", True, "c")

    async def test_few_syncs_of_a_connection_are_read_at_once_and_the_others_wait_in_order(
        self, connection: Connection
    ) -> None:
        await connection.connect()
        for number in range(3 * MAX_SYNCS_AT_ONCE):
            await sync(connection, number)
        assert len(connection.pages) == MAX_SYNCS_AT_ONCE
        for number in range(3 * MAX_SYNCS_AT_ONCE):
            connection.pages[number].set_result(Page((), has_more=False, latest_sequence=number))
            await asyncio.sleep(0)
        answers = (await connection.frames())[1:]
        assert [answer["latest_sequence"] for answer in answers] == list(range(3 * MAX_SYNCS_AT_ONCE))

    async def test_syncs_that_wait_count_as_requests_in_flight(self, connection: Connection) -> None:
        await connection.connect()
        for number in range(MAX_REQUESTS_IN_FLIGHT + 1):
            await sync(connection, number)
        assert len(connection.pages) == MAX_SYNCS_AT_ONCE
        assert [frame["type"] for frame in await connection.frames()] == ["connected", "error"]

    async def test_syncs_that_are_refused_let_the_next_begin(self, connection: Connection) -> None:
        await connection.connect()
        refused = itertools.count()

        def ask(chat_id: str, user_id: str, window: object) -> "asyncio.Future[Page]":
            if next(refused) < 100:
                raise ChatNotFound
            return connection.ask(chat_id, user_id, window)

        connection.parts.services.history.ask = ask  # type: ignore[method-assign]
        for number in range(101):
            await sync(connection, number)
        async with asyncio.timeout(10):
            while not connection.pages:  # noqa: ASYNC110 - the condition has no event
                await asyncio.sleep(0)

    async def test_a_closed_connection_reads_no_more(self, connection: Connection) -> None:
        await connection.connect()
        for number in range(2 * MAX_SYNCS_AT_ONCE):
            await sync(connection, number)
        connection.consumer.end(Close.RESTART)
        for page in connection.pages:
            page.set_result(Page((), has_more=False, latest_sequence=0))
        await connection.frames()
        assert len(connection.pages) == MAX_SYNCS_AT_ONCE


async def sync(connection: Connection, after: int) -> None:
    frame = {"type": "sync_request", "chat_id": CHAT, "last_acked_sequence": after}
    await connection.consumer.websocket_receive({"text": json.dumps(frame)})
