"""What the fanout publishes reaches the sockets that it names, without Redis."""

import asyncio
from typing import cast
from unittest.mock import Mock, patch

import orjson
import pytest

from delivery.gateway import deliveries
from delivery.gateway.deliveries import Deliveries
from delivery.gateway.live import LiveUpdates
from delivery.gateway.sockets import Socket
from foundation.kernel.ids import UserId
from tests.unit.delivery.fake_sockets import FakeSocket


def deliveries_to(*sockets: FakeSocket) -> Deliveries:
    by_id: dict[str, Socket] = {socket.registration.connection_id: socket for socket in sockets}
    return Deliveries(Mock(), gateway_id="gw", sockets=by_id, live=Mock(), on_lost=Mock())


def delivering(connection_ids: list[str], sequence: int) -> bytes:
    message = {"type": "message", "chat_id": "chat", "sequence": sequence}
    return orjson.dumps({"deliveries": [{"connection_ids": connection_ids, "messages": [message]}]})


class TestSubscribing:
    def test_deliveries_may_have_been_lost_if_it_comes_after_sockets_or_again(self) -> None:
        early, late = deliveries_to(), deliveries_to(FakeSocket("ann"))
        early._on_subscribed()
        assert lost(early) == 0
        late._on_subscribed()
        assert lost(late) == 1
        for each in (early, late):
            each._on_subscribed()
        assert (lost(early), lost(late)) == (1, 2)


def lost(deliveries: Deliveries) -> int:
    """How often deliveries may have been lost."""
    return cast(Mock, deliveries._on_lost).call_count


class TestDelivering:
    def test_frames_go_to_the_sockets_named_and_to_no_other(self) -> None:
        ann, bob = FakeSocket("ann"), FakeSocket("bob")
        message = {"type": "message", "chat_id": "chat", "sequence": 1}
        deliveries = [{"connection_ids": ["gw.ann", "gw.gone"], "messages": [message]}]
        deliveries_to(ann, bob).deliver([orjson.dumps({"type": "deliver", "deliveries": deliveries})])
        assert [orjson.loads(frame.payload) for frame in ann.frames] == [message]
        assert bob.frames == []

    def test_payloads_that_wait_together_are_coalesced_and_encoded_once_for_all_who_get_the_same(self) -> None:
        sockets = [FakeSocket(name) for name in ("ann", "bob", "eve")]
        payloads = [
            delivering(["gw.ann", "gw.bob", "gw.eve"], 1),
            delivering(["gw.ann", "gw.bob"], 2),
            delivering(["gw.ann", "gw.bob", "gw.eve"], 3),
        ]
        deliveries_to(*sockets).deliver(payloads)
        (ann,), (bob,), eve = (socket.frames for socket in sockets)
        assert ann is bob
        assert [body["sequence"] for body in orjson.loads(ann.payload)["messages"]] == [1, 2, 3]
        assert [body["sequence"] for frame in eve for body in orjson.loads(frame.payload)["messages"]] == [1, 3]

    async def test_payloads_that_arrive_during_a_pause_are_delivered_in_one_write(self) -> None:
        ann = FakeSocket("ann")
        made, loop = deliveries_to(ann), asyncio.get_running_loop()
        made._paused_until = loop.time() + 0.01
        for sequence in (1, 2, 3):
            made._schedule_delivery(delivering(["gw.ann"], sequence))
        assert not ann.frames
        async with asyncio.timeout(5):
            await ann.has_frames.wait()
        (frame,) = ann.frames
        assert [body["sequence"] for body in orjson.loads(frame.payload)["messages"]] == [1, 2, 3]

    async def test_deliveries_pause_only_after_a_delivery_to_the_same_sockets(self) -> None:
        made, pauses = deliveries_to(FakeSocket("ann"), FakeSocket("bob")), []
        for name in ("ann", "bob", "bob", "ann"):
            made._payloads = [delivering([f"gw.{name}"], 1)]
            with patch.object(asyncio, "get_running_loop", return_value=Mock(time=Mock(side_effect=[1.0, 2.0]))):
                made._deliver_waiting()
            pauses.append(made._paused_until - 2.0)
        assert pauses == pytest.approx([0.0, 0.0, deliveries.MAX_PAUSE, 0.0])

    async def test_too_many_payloads_end_a_pause(self) -> None:
        ann = FakeSocket("ann")
        made = deliveries_to(ann)
        made._paused_until = asyncio.get_running_loop().time() + 60
        for sequence in range(1, deliveries.MAX_PAYLOADS + 1):
            made._schedule_delivery(delivering(["gw.ann"], sequence))
        assert sum(len(orjson.loads(frame.payload)["messages"]) for frame in ann.frames) == deliveries.MAX_PAYLOADS

    def test_a_malformed_payload_does_not_stop_the_others(self) -> None:
        ann = FakeSocket("ann")
        deliveries_to(ann).deliver([delivering(["gw.ann"], 1), b"{", delivering(["gw.ann"], 2)])
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
        deliveries_to(ann).deliver([payload])
        assert ann.frames == []


class TestLivePayloads:
    def test_they_go_to_the_parts_that_know_them_and_others_are_deliveries(self) -> None:
        ann = FakeSocket("ann")
        made = deliveries_to(ann)
        made._schedule_delivery = Mock()  # type: ignore[method-assign]
        live, ordinary = orjson.dumps({"type": "live", "frames": []}), delivering(["gw.ann"], 1)
        for payload in (live, ordinary):
            made._on_payload(payload)
        made._live.on_payload.assert_called_once_with(live, made._sockets)  # type: ignore[attr-defined]
        made._schedule_delivery.assert_called_once_with(ordinary)

    @pytest.mark.parametrize(
        "payload", [b"{", b"[]", b"{}", b'{"frames": [{}]}', b'{"frames": [{"frame": {"type": "x"}}]}']
    )
    def test_a_malformed_one_is_ignored(self, payload: bytes) -> None:
        LiveUpdates({}, presence=Mock(), privacy=Mock(), watchers=Mock(), typing=Mock()).on_payload(payload, {})

    def test_a_member_that_is_removed_is_no_longer_watched_and_types_no_more(self) -> None:
        ann, watchers, typing = FakeSocket("ann"), Mock(), Mock()
        made = deliveries_to(ann)
        made._live = LiveUpdates({}, presence=Mock(), privacy=Mock(), watchers=watchers, typing=typing)
        notice = {"type": "membership_changed", "chat_id": "c", "user_id": "u", "change_type": "removed"}
        payload = orjson.dumps({"deliveries": [{"connection_ids": ["gw.ann"], "messages": [notice]}]})
        made.deliver([payload])
        watchers.member_left.assert_called_once_with("c", "u")
        typing.member_left.assert_called_once_with("c", "u")
        assert [orjson.loads(frame.payload) for frame in ann.frames] == [notice]

    def test_who_is_watched_or_watches_follows_a_changed_setting(self) -> None:
        watchers, privacy = Mock(), Mock()
        live = LiveUpdates({}, presence=Mock(), privacy=privacy, watchers=watchers, typing=Mock())
        live.on_privacy_changed({UserId("u")})
        privacy.forget.assert_called_once_with({"u"})
        watchers.privacy_changed.assert_called_once_with({"u"})
