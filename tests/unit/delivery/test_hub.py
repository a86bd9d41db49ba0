"""The hub: the sockets of one process, and the tasks that tend them, without Redis."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import cast
from unittest.mock import AsyncMock, Mock, patch

import orjson
import pytest
import uvloop

from delivery.gateway import hub
from delivery.gateway.closing import Close
from delivery.gateway.control import ControlNotice
from delivery.gateway.hub import Hub
from delivery.stores.connections import CONNECTION_TTL, ConnectionRegistry, Registration
from foundation.kernel.ids import SessionId, UserId
from foundation.stores.errors import StoreUnavailable
from tests.unit.delivery.fake_sockets import FakeSocket


def hub_of(*sockets: FakeSocket, ended: Iterable[str] = ()) -> Hub:
    async def ended_among(sessions: Mapping[SessionId, UserId]) -> Iterable[SessionId]:
        return [session_id for session_id in sessions if session_id in ended]

    made = Hub(
        live=Mock(),
        gateway_id="gw",
        client=Mock(),
        sessions_ended=Mock(),
        users_changed=Mock(),
        control=AsyncMock(),
        ended_among=ended_among,
        max_per_user=50,
    )
    made._sockets.update({socket.registration.connection_id: socket for socket in sockets})
    return made


class FakeRegistry:
    """The gateway's connections in Redis. While `gate` is closed, a registration is on its way."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.batches: list[list[str]] = []
        self.is_away = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def register(self, registrations: Sequence[Registration]) -> None:
        self._require_engine()
        names = [each.connection_id for each in registrations]
        await self.gate.wait()
        self.known.update(names)
        self.batches.append(list(names))

    async def unregister(self, registrations: Sequence[Registration]) -> set[UserId]:
        self._require_engine()
        self.known.difference_update(each.connection_id for each in registrations)
        return set() if self.known else {UserId("user")}

    async def count(self) -> int:
        self._require_engine()
        return len(self.known)

    def _require_engine(self) -> None:
        if self.is_away:
            raise StoreUnavailable("away")


def hub_with_registry() -> tuple[Hub, FakeRegistry]:
    made, registry = hub_of(), FakeRegistry()
    made._registry = registry  # type: ignore[assignment]
    return made, registry


async def tend_once(made: Hub) -> None:
    """One round of the task."""
    with patch.object(asyncio, "sleep", side_effect=asyncio.CancelledError), suppress(asyncio.CancelledError):
        await made._tend()


class TestRegistering:
    async def test_a_socket_that_leaves_while_its_registration_is_on_its_way_is_not_left_registered(self) -> None:
        made, registry = hub_with_registry()
        ann = FakeSocket("ann")
        registry.gate.clear()
        adding = asyncio.ensure_future(made.add(ann))
        await asyncio.sleep(0)
        leaving = asyncio.ensure_future(made.remove(ann))
        await asyncio.sleep(0)
        registry.gate.set()
        await asyncio.gather(adding, leaving)
        assert (registry.known, made._registered, made._unregistered) == (set(), {}, {})

    async def test_nor_one_that_leaves_while_a_refresh_is_on_its_way(self) -> None:
        made, registry = hub_with_registry()
        ann = FakeSocket("ann")
        await made.add(ann)
        ann.registered_at = hub.UNREGISTERED
        registry.gate.clear()
        refreshing = asyncio.ensure_future(made._refresh())
        await asyncio.sleep(0)
        leaving = asyncio.ensure_future(made.remove(ann))
        await asyncio.sleep(0)
        registry.gate.set()
        await asyncio.gather(refreshing, leaving)
        assert (registry.known, made._registered) == (set(), {})

    async def test_only_registrations_that_are_due_are_refreshed(self) -> None:
        made, registry = hub_with_registry()
        sockets = [FakeSocket(str(number)) for number in range(5)]
        for socket in sockets:
            await made.add(socket)
        registry.batches.clear()
        for socket in sockets[:2]:
            socket.registered_at -= hub.REFRESH_AFTER + 1
        await tend_once(made)
        await tend_once(made)
        assert registry.batches == [["gw.0", "gw.1"]]
        assert list(made._registered) == ["gw.2", "gw.3", "gw.4", "gw.0", "gw.1"]

    async def test_a_socket_that_could_not_be_registered_is_registered_later_and_resyncs(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hub, "RESYNC_SPREAD", 0.0)
        made, registry = hub_with_registry()
        ann = FakeSocket("ann")
        registry.is_away = True
        await made.add(ann)
        registry.is_away = False
        await tend_once(made)
        await asyncio.wait_for(ann.has_frames.wait(), 10)
        assert (registry.known, len(ann.frames)) == ({"gw.ann"}, 1)

    async def test_what_redis_has_lost_is_registered_again_and_resyncs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hub, "RESYNC_SPREAD", 0.0)
        made, registry = hub_with_registry()
        sockets = [FakeSocket(str(number)) for number in range(3)]
        for socket in sockets:
            await made.add(socket)
        registry.known.clear()
        await tend_once(made)
        for socket in sockets:
            await asyncio.wait_for(socket.has_frames.wait(), 10)
        assert registry.known == {"gw.0", "gw.1", "gw.2"}

    async def test_a_socket_that_leaves_during_the_question_does_not_look_like_a_loss(self) -> None:
        made, registry = hub_with_registry()
        ann, bob = FakeSocket("ann"), FakeSocket("bob")
        await made.add(ann)
        await made.add(bob)

        async def count() -> int:
            await made.remove(ann)
            return len(registry.known)

        registry.count = count  # type: ignore[method-assign]
        assert not await made._is_registry_lost()

    async def test_an_engine_that_is_away_costs_one_batch(self) -> None:
        made, registry = hub_with_registry()
        made._max_per_user = 2 * hub.REGISTER_BATCH
        sockets = [FakeSocket(str(number)) for number in range(2 * hub.REGISTER_BATCH)]
        for socket in sockets:
            await made.add(socket)
            socket.registered_at = hub.UNREGISTERED
        registry.register = register = AsyncMock(side_effect=StoreUnavailable("away"))  # type: ignore[method-assign]
        with pytest.raises(StoreUnavailable):
            await made._refresh()
        (batch,) = (call.args[0] for call in register.await_args_list)
        assert len(batch) == hub.REGISTER_BATCH
        assert len(made._registered) == len(sockets)

    async def test_a_socket_whose_refresh_was_late_is_told_to_resync(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """While Redis refused to refresh it, its entries may have expired, and deliveries were lost."""
        monkeypatch.setattr(hub, "RESYNC_SPREAD", 0.0)
        made, _ = hub_with_registry()
        late, timely = FakeSocket("late"), FakeSocket("timely")
        for socket in (late, timely):
            await made.add(socket)
        late.registered_at -= CONNECTION_TTL
        timely.registered_at -= hub.REFRESH_AFTER + 1
        await tend_once(made)
        await asyncio.wait_for(late.has_frames.wait(), 10)
        assert [orjson.loads(frame.payload) for frame in late.frames] == [{"type": "resync"}]
        assert timely.frames == []


class TestConnectionsOfAUser:
    async def test_one_more_than_allowed_is_closed_and_leaving_makes_room(self) -> None:
        made, registry = hub_with_registry()
        made._max_per_user = 2
        first, second, third, fourth = (FakeSocket(name) for name in ("1", "2", "3", "4"))
        for socket in (first, second, third):
            await made.add(socket)
        assert [socket.closed for socket in (first, second, third)] == [[], [], [Close.RATE_LIMITED]]
        assert registry.known == {"gw.1", "gw.2"}
        await made.remove(third)
        await made.remove(first)
        await made.add(fourth)
        assert fourth.closed == []
        for socket in (second, fourth):
            await made.remove(socket)
        assert not made._by_user


class TestResync:
    @pytest.mark.parametrize(("count", "spread"), [(10, hub.RESYNC_SPREAD), (5_000, 10.0)])
    async def test_more_sockets_are_spread_over_more_time(
        self, count: int, spread: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spreads = set()

        def uniform(least: float, most: float) -> float:
            spreads.add(most)
            return 3600.0

        monkeypatch.setattr("random.uniform", uniform)
        hub_of()._ask_to_resync([FakeSocket(str(number)) for number in range(count)])
        assert spreads == {spread}

    async def test_one_that_is_still_to_be_told_is_told_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hub, "RESYNC_SPREAD", 0.0)
        made, ann = hub_of(), FakeSocket("ann")
        for _ in range(2):
            made._ask_to_resync([ann])
            made._ask_to_resync([ann])
            await asyncio.wait_for(ann.has_frames.wait(), 10)
            ann.has_frames.clear()
        await asyncio.sleep(0.01)
        assert len(ann.frames) == 2


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

    async def test_many_sessions_are_read_in_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hub, "RECHECK_AFTER", 0.0)
        sockets = [FakeSocket(str(number)) for number in range(2 * hub.RECHECK_BATCH + 1)]
        made = hub_of(*sockets)
        made._ended_among = read = AsyncMock(side_effect=[(), (), ("sess_200",), asyncio.CancelledError])
        with suppress(asyncio.CancelledError):
            await made._recheck()
        assert [len(call.args[0]) for call in read.await_args_list[:3]] == [hub.RECHECK_BATCH, hub.RECHECK_BATCH, 1]
        assert [socket.closed for socket in sockets[-2:]] == [[], [Close.SESSION_REVOKED]]


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


class TestNotices:
    async def test_privacy_settings_are_dropped_when_notices_may_have_been_lost(self) -> None:
        made = hub_of()
        made._control = AsyncMock(
            side_effect=[ControlNotice(), ControlNotice(may_follow_a_gap=True), asyncio.CancelledError]
        )
        with suppress(asyncio.CancelledError):
            await made._listen()
        made._live.on_notices_lost.assert_called_once_with()  # type: ignore[attr-defined]

    async def test_one_that_ends_nothing_looks_at_no_socket(self) -> None:
        made = hub_of()
        made._sockets = Mock(values=Mock(side_effect=AssertionError))
        made._control = AsyncMock(
            side_effect=[ControlNotice(privacy_changed=frozenset({UserId("u")})), asyncio.CancelledError]
        )
        with suppress(asyncio.CancelledError):
            await made._listen()
        made._sockets.values.assert_not_called()


class TestDraining:
    async def test_every_socket_is_closed_with_restart(self) -> None:
        sockets = [FakeSocket(str(number)) for number in range(5)]
        draining = hub_of(*sockets)
        draining._registry = AsyncMock()
        await draining.drain(spread=0.01)
        assert [socket.closed for socket in sockets] == [[Close.RESTART]] * 5
        assert draining.draining

    @pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
    def test_many_sockets_are_spread_over_the_same_time(
        self, loop_factory: Callable[[], asyncio.AbstractEventLoop]
    ) -> None:
        made = hub_of(*(FakeSocket(str(number)) for number in range(2_000)))
        made.draining = True
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            started = time.monotonic()
            assert len(runner.run(made._move_clients(0.5))) == 2_000
        assert 0.4 < time.monotonic() - started < 1.5

    async def test_an_operator_drains_this_gateway_only_and_resumes_it(self) -> None:
        socket = FakeSocket("one")
        made = hub_of(socket)
        made._follow(ControlNotice(drained="gw-other"))
        assert not made.draining
        made._follow(ControlNotice(drained=made.gateway_id))
        assert made._moving is not None
        made._follow(ControlNotice(drained=made.gateway_id))
        await asyncio.sleep(0)
        assert socket.closed == [Close.RESTART]
        with pytest.raises(StoreUnavailable, match="--undo"):
            made.require_open()
        made._follow(ControlNotice(resumed=made.gateway_id))
        made.require_open()
        await made._moving

    async def test_a_gateway_that_is_resumed_right_after_it_was_drained_stays_open(self) -> None:
        socket = FakeSocket("one")
        made = hub_of(socket)
        made._follow(ControlNotice(drained=made.gateway_id))
        made._follow(ControlNotice(resumed=made.gateway_id))
        assert made._moving is not None
        await made._moving
        made.require_open()
        assert socket.closed == []


class TestSuspensions:
    async def _hear(self, made: Hub, *notices: ControlNotice) -> None:
        made._control = AsyncMock(side_effect=[*notices, asyncio.CancelledError])
        with suppress(asyncio.CancelledError):
            await made._listen()

    async def test_every_socket_of_the_user_is_closed_and_no_other(self) -> None:
        ann, tablet, bob = FakeSocket("ann"), FakeSocket("tablet"), FakeSocket("bob")
        bob.registration = replace(bob.registration, user_id=UserId("bob"))
        await self._hear(hub_of(ann, tablet, bob), ControlNotice(suspended=frozenset({UserId("user")})))
        assert (ann.closed, tablet.closed, bob.closed) == ([Close.SESSION_REVOKED], [Close.SESSION_REVOKED], [])

    async def test_a_socket_whose_handshake_was_under_way_is_closed_too(self) -> None:
        made, late = hub_of(), FakeSocket("late")
        made._registry = cast(ConnectionRegistry, FakeRegistry())
        await self._hear(made, ControlNotice(suspended=frozenset({UserId("user")})))
        await made.add(late)
        assert late.closed == [Close.SESSION_REVOKED]

    async def test_a_restored_user_may_connect_at_once(self) -> None:
        made, socket, user = hub_of(), FakeSocket("ann"), frozenset({UserId("user")})
        made._registry = cast(ConnectionRegistry, FakeRegistry())
        await self._hear(made, ControlNotice(suspended=user), ControlNotice(restored=user))
        await made.add(socket)
        assert socket.closed == []


class TestPresence:
    async def test_users_whose_last_connection_ends_are_gone_unless_the_gateway_drains(self) -> None:
        made, _ = hub_with_registry()
        for draining in (True, False):
            made.draining = draining
            ann = FakeSocket("ann")
            await made.add(ann)
            await made.remove(ann)
        made._live.on_users_gone.assert_called_once_with({"user"})  # type: ignore[attr-defined]
