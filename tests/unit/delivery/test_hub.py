"""The hub: deliveries to the sockets of one process, and the tasks that tend them, without Redis."""

import asyncio
from collections.abc import Iterable
from unittest.mock import AsyncMock, Mock

import orjson
import pytest

from delivery.gateway import frames, hub
from delivery.gateway.closing import Close
from delivery.gateway.hub import Hub
from delivery.stores.connections import Registration
from foundation.kernel.ids import ConnectionId, SessionId, UserId


class FakeSocket:
    def __init__(self, name: str) -> None:
        self.registration = Registration(
            ConnectionId(f"gw.{name}"), UserId("user"), SessionId(f"sess_{name}"), "phone", ""
        )
        self.registered_at = hub.UNREGISTERED
        self.frames: list[frames.Frame] = []
        self.closed: list[Close] = []
        self.has_closed = asyncio.Event()
        self.has_frames = asyncio.Event()

    def deliver(self, frame: frames.Frame) -> None:
        self.frames.append(frame)
        self.has_frames.set()

    def end(self, close: Close) -> None:
        self.closed.append(close)
        self.has_closed.set()

    def overdue(self, now: float) -> Close | None:
        return None


def hub_of(*sockets: FakeSocket, ended: Iterable[str] = ()) -> Hub:
    async def ended_among(session_ids: Iterable[SessionId]) -> Iterable[SessionId]:
        return [session_id for session_id in session_ids if session_id in ended]

    made = Hub(gateway_id="gw", client=Mock(), sessions_ended=Mock(), control=AsyncMock(), ended_among=ended_among)
    made._sockets.update({socket.registration.connection_id: socket for socket in sockets})
    return made


def delivering(connection_ids: list[str], sequence: int) -> bytes:
    message = {"type": "message", "chat_id": "chat", "sequence": sequence}
    return orjson.dumps({"deliveries": [{"connection_ids": connection_ids, "messages": [message]}]})


class TestDelivering:
    def test_frames_go_to_the_sockets_named_and_to_no_other(self) -> None:
        ann, bob = FakeSocket("ann"), FakeSocket("bob")
        message = {"type": "message", "chat_id": "chat", "sequence": 1}
        deliveries = [{"connection_ids": ["gw.ann", "gw.gone"], "messages": [message]}]
        hub_of(ann, bob).deliver([orjson.dumps({"type": "deliver", "deliveries": deliveries})])
        assert [orjson.loads(frame.payload) for frame in ann.frames] == [message]
        assert bob.frames == []

    def test_payloads_that_wait_together_are_coalesced_and_encoded_once_for_all_who_get_the_same(self) -> None:
        sockets = [FakeSocket(name) for name in ("ann", "bob", "eve")]
        payloads = [
            delivering(["gw.ann", "gw.bob", "gw.eve"], 1),
            delivering(["gw.ann", "gw.bob"], 2),
            delivering(["gw.ann", "gw.bob", "gw.eve"], 3),
        ]
        hub_of(*sockets).deliver(payloads)
        (ann,), (bob,), eve = (socket.frames for socket in sockets)
        assert ann is bob
        assert [body["sequence"] for body in orjson.loads(ann.payload)["messages"]] == [1, 2, 3]
        assert [body["sequence"] for frame in eve for body in orjson.loads(frame.payload)["messages"]] == [1, 3]

    async def test_payloads_that_arrive_during_a_pause_are_delivered_in_one_write(self) -> None:
        ann = FakeSocket("ann")
        made, loop = hub_of(ann), asyncio.get_running_loop()
        made._paused_until = loop.time() + 0.01
        for sequence in (1, 2, 3):
            made._schedule_delivery(delivering(["gw.ann"], sequence))
        assert not ann.frames
        async with asyncio.timeout(5):
            await ann.has_frames.wait()
        (frame,) = ann.frames
        assert [body["sequence"] for body in orjson.loads(frame.payload)["messages"]] == [1, 2, 3]

    async def test_deliveries_pause_only_after_a_delivery_to_the_same_sockets(self) -> None:
        made, loop = hub_of(FakeSocket("ann"), FakeSocket("bob")), asyncio.get_running_loop()
        pauses = []
        for name in ("ann", "bob", "bob", "ann"):
            made._payloads = [delivering([f"gw.{name}"], 1)]
            made._deliver_waiting()
            pauses.append(made._paused_until > loop.time())
            made._paused_until = hub.UNREGISTERED
        assert pauses == [False, False, True, False]

    async def test_too_many_payloads_end_a_pause(self) -> None:
        ann = FakeSocket("ann")
        made = hub_of(ann)
        made._paused_until = asyncio.get_running_loop().time() + 60
        for sequence in range(1, hub.MAX_PAYLOADS + 1):
            made._schedule_delivery(delivering(["gw.ann"], sequence))
        assert sum(len(orjson.loads(frame.payload)["messages"]) for frame in ann.frames) == hub.MAX_PAYLOADS

    def test_a_socket_that_cannot_be_written_to_is_closed_and_the_others_get_their_frames(self) -> None:
        broken, ann = FakeSocket("broken"), FakeSocket("ann")
        broken.deliver = Mock(side_effect=AttributeError)  # type: ignore[method-assign]
        hub_of(broken, ann).deliver([delivering(["gw.broken", "gw.ann"], 1)])
        assert (len(ann.frames), broken.closed) == (1, [Close.RESTART])

    def test_a_malformed_payload_does_not_stop_the_others(self) -> None:
        ann = FakeSocket("ann")
        hub_of(ann).deliver([delivering(["gw.ann"], 1), b"{", delivering(["gw.ann"], 2)])
        assert [body["sequence"] for body in orjson.loads(ann.frames[0].payload)["messages"]] == [1, 2]

    @pytest.mark.parametrize(
        "payload",
        [
            b"{",
            b"[]",
            b"{}",
            b'{"deliveries": [{}]}',
            b'{"deliveries": [{"connection_ids": [], "messages": [1]}]}',
            b'{"deliveries": [{"connection_ids": [], "messages": [{"type": "message"}]}]}',
        ],
    )
    def test_a_malformed_payload_is_ignored(self, payload: bytes) -> None:
        ann = FakeSocket("ann")
        hub_of(ann).deliver([payload])
        assert ann.frames == []


class TestSessions:
    async def test_after_a_lost_notice_ended_sessions_are_found_in_the_database(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hub, "RECHECK_AFTER", 0.0)
        ann, bob = FakeSocket("ann"), FakeSocket("bob")
        task = asyncio.ensure_future(hub_of(ann, bob, ended=["sess_ann"])._recheck())
        await asyncio.wait_for(ann.has_closed.wait(), 10)
        task.cancel()
        assert ann.closed[0] is Close.SESSION_REVOKED
        assert bob.closed == []


class TestTasks:
    async def test_a_task_that_fails_is_restarted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("random.uniform", lambda *_: 0.0)
        runs: list[int] = []
        done = asyncio.Event()

        async def buggy() -> None:
            runs.append(1)
            if len(runs) < 3:
                raise ZeroDivisionError
            done.set()
            await asyncio.sleep(3600)

        task = asyncio.ensure_future(hub_of()._forever(buggy, "test"))
        await asyncio.wait_for(done.wait(), 10)
        task.cancel()
        assert len(runs) == 3


class TestDraining:
    async def test_every_socket_is_closed_with_restart(self) -> None:
        sockets = [FakeSocket(str(number)) for number in range(5)]
        draining = hub_of(*sockets)
        draining._registry = AsyncMock()
        await draining.drain(spread=0.01)
        assert [socket.closed for socket in sockets] == [[Close.RESTART]] * 5
        assert draining.draining
