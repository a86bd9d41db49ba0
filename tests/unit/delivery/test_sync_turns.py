"""The syncs of a user's connections: a few at a time, in the order in which they were asked for."""

import asyncio
from collections.abc import Callable

from delivery.gateway.sync_turns import MAX_SYNCS_OF_A_USER, SyncTurns
from foundation.kernel.ids import UserId

ADA, BOB = UserId("user_ada"), UserId("user_bob")


class Reads:
    """The reads that have begun, by number."""

    def __init__(self) -> None:
        self.begun: dict[int, asyncio.Future[None]] = {}

    def start(self, number: int) -> Callable[[], asyncio.Future[None]]:
        def begin() -> asyncio.Future[None]:
            self.begun[number] = asyncio.get_running_loop().create_future()
            return self.begun[number]

        return begin


async def test_a_few_of_a_user_are_read_at_once_and_another_user_does_not_wait() -> None:
    turns, reads = SyncTurns(), Reads()
    for number in range(2 * MAX_SYNCS_OF_A_USER):
        turns.add(ADA, reads.start(number))
    assert list(reads.begun) == list(range(MAX_SYNCS_OF_A_USER))
    turns.add(BOB, reads.start(1_000))
    assert 1_000 in reads.begun


async def test_each_that_ends_or_fails_lets_the_next_begin_and_nothing_is_left_behind() -> None:
    turns, reads = SyncTurns(), Reads()
    for number in range(2 * MAX_SYNCS_OF_A_USER):
        turns.add(ADA, reads.start(number))
    for number in range(2 * MAX_SYNCS_OF_A_USER):
        if number % 2:
            reads.begun[number].set_result(None)
        else:
            reads.begun[number].set_exception(ValueError())
        await asyncio.sleep(0)
        reads.begun[number].exception()
    assert len(reads.begun) == 2 * MAX_SYNCS_OF_A_USER
    assert turns._users == {}


async def test_those_of_connections_that_have_closed_take_no_turn() -> None:
    turns, reads = SyncTurns(), Reads()
    for _ in range(1_000):
        turns.add(ADA, lambda: None)
    assert turns._users == {}
    turns.add(ADA, reads.start(0))
    assert list(reads.begun) == [0]
