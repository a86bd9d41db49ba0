"""When a socket should be closed: no sign of life, a token long expired, or a server that is too far behind."""

import asyncio
import json
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from delivery.gateway.closing import Close
from delivery.gateway.consumer import HEARTBEAT_INTERVAL, MAX_UNDER_WAY, TOKEN_GRACE, GatewayConsumer, GatewayParts
from foundation.kernel.caller import Caller
from foundation.kernel.ids import IdFactory, SessionId, UserId
from tests.doubles import SettableClock

CHAT = "chat_01HQX000000000000000000000"


class SilentHub:
    """Lets everyone in."""

    gateway_id = "gw-test"
    draining = False

    async def start(self) -> None: ...

    async def add(self, socket: object) -> None: ...

    def post(self, call: object, *arguments: object) -> None: ...


class Line:
    """A socket of Ada's, connected to a server whose committer never answers."""

    def __init__(self) -> None:
        self.clock = SettableClock()
        self.sent: list[dict[str, Any]] = []
        self.submitted = 0
        self.parts = GatewayParts(
            hub=SilentHub(),  # type: ignore[arg-type]
            committer=Mock(submit=self.submit),
            history=Mock(),
            acks=Mock(),
            verify=self.verify,
            executor=ThreadPoolExecutor(1),
            allowed_origins=(),
            ids=IdFactory(self.clock),
            clock=self.clock,
        )
        self.consumer = GatewayConsumer(self.parts)
        self.consumer.scope = {"headers": [(b"authorization", b"Bearer token")]}
        self.consumer.base_send = self.note

    def verify(self, token: str) -> Caller:
        expires_at = self.clock.now() + timedelta(minutes=15)
        return Caller(UserId("user_ada"), SessionId("sess_ada"), expires_at)

    def submit(self, draft: object) -> "Future[Any]":
        self.submitted += 1
        return Future()

    async def note(self, event: dict[str, Any]) -> None:
        self.sent.append(event)

    async def connect(self) -> float:
        await self.consumer.websocket_connect({})
        return asyncio.get_running_loop().time()

    async def frames(self) -> list[dict[str, Any]]:
        for _ in range(3):
            await asyncio.sleep(0)
        return [json.loads(event["text"]) for event in self.sent if event["type"] == "websocket.send"]


@pytest.fixture
def line() -> Line:
    return Line()


class TestOverdue:
    async def test_two_missed_heartbeats(self, line: Line) -> None:
        await line.connect()
        now = line.consumer._last_heard
        assert line.consumer.overdue(now + 2 * HEARTBEAT_INTERVAL - 1) is None
        assert line.consumer.overdue(now + 2 * HEARTBEAT_INTERVAL + 1) is Close.HEARTBEAT_MISSED

    async def test_any_frame_is_a_sign_of_life(self, line: Line) -> None:
        await line.connect()
        line.consumer._last_heard -= 1000
        await line.consumer.websocket_receive({"text": '{"type": "heartbeat"}'})
        assert line.consumer.overdue(asyncio.get_running_loop().time()) is None
        assert [frame["type"] for frame in await line.frames()] == ["connected", "heartbeat_ack"]

    async def test_a_token_is_outlived_by_a_minute_at_most_unless_there_is_a_new_one(self, line: Line) -> None:
        now = await line.connect()
        line.clock.advance(minutes=15, seconds=TOKEN_GRACE - 1)
        assert line.consumer.overdue(now) is None
        line.clock.advance(seconds=2)
        assert line.consumer.overdue(now) is Close.UNAUTHENTICATED
        await line.consumer.websocket_receive({"text": '{"type": "authenticate", "access_token": "new"}'})
        assert line.consumer.overdue(now) is None

    async def test_nothing_passes_a_token_that_is_being_checked(self, line: Line) -> None:
        await line.connect()
        assert line.consumer._take_at_once('{"type": "authenticate", "access_token": "new"}')
        assert not line.consumer._take_at_once('{"type": "heartbeat"}')
        await line.consumer.websocket_receive({"text": '{"type": "heartbeat"}'})
        assert line.consumer._take_at_once('{"type": "heartbeat"}')
        assert [frame["type"] for frame in await line.frames()] == ["connected", "heartbeat_ack", "heartbeat_ack"]

    async def test_a_frame_that_cannot_be_handled_ends_its_socket_alone(
        self, line: Line, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        await line.connect()
        monkeypatch.setattr(line.consumer, "_handle", Mock(side_effect=ZeroDivisionError))
        assert line.consumer._take_at_once('{"type": "heartbeat"}')
        await line.frames()
        assert line.sent[-1] == {"type": "websocket.close", "code": int(Close.INTERNAL)}
        assert "ZeroDivisionError" in caplog.text

    async def test_a_frame_behind_a_token_is_not_passed_by_the_next(self, line: Line) -> None:
        await line.connect()
        assert line.consumer._take_at_once('{"type": "authenticate", "access_token": "new"}')
        assert line.consumer._checking is not None
        await line.consumer._checking
        assert not line.consumer._take_at_once('{"type": "heartbeat"}')


class TestBacklog:
    async def test_a_client_that_asks_faster_than_it_is_served_is_told_and_nothing_is_stored(self, line: Line) -> None:
        await line.connect()
        frame = json.dumps({"type": "send_message", "client_message_id": "c", "chat_id": CHAT, "content": "x"})
        for _ in range(MAX_UNDER_WAY + 1):
            await line.consumer.websocket_receive({"text": frame})
        assert line.submitted == MAX_UNDER_WAY
        last = (await line.frames())[-1]
        assert (last["type"], last["retryable"], last["client_message_id"]) == ("error", True, "c")
