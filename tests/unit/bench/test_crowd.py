import asyncio

import pytest

from bench.crowd import Complaints, require_open
from bench.players import unless_failed
from bench.timeline import WrongDelivery
from bench.wire import Wire


def ready_wire() -> Wire:
    wire = Wire(lambda _frame: None)
    wire.ready.set_result(b"connected")
    return wire


class TestCrowd:
    async def test_who_counts_connections_has_to_have_them(self) -> None:
        wires = {number: ready_wire() for number in range(3)}
        require_open(wires)
        wires[1].closed.set_result(4408)
        with pytest.raises(WrongDelivery, match="closed 1 of 3 connections, the first with 4408"):
            require_open(wires)

    async def test_an_error_of_the_server_fails_the_run(self) -> None:
        complaints = Complaints()
        complaints.read(b'{"type":"heartbeat_ack"}')
        complaints.require_none()
        complaints.read(b'{"type":"error","code":"internal"}')
        with pytest.raises(WrongDelivery, match="internal"):
            complaints.require_none()


class TestPlayers:
    async def test_a_player_that_fails_ends_the_wait_for_it(self) -> None:
        async def fail() -> None:
            raise WrongDelivery("at once")

        with pytest.raises(WrongDelivery, match="at once"):
            await unless_failed(asyncio.create_task(fail()), asyncio.sleep(60))
