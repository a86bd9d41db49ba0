"""The outgoing queue of one connection."""

import asyncio
import json
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from delivery.gateway.deliveries import delivered
from delivery.gateway.frames import MAX_FRAMES, Frame, Outbox, Plain
from delivery.gateway.queue_budget import QueueBudget
from foundation.kernel.ids import UserId


class FakeExtension:
    """A client that reads or does not, as the test says."""

    def __init__(self) -> None:
        self.is_writable = True
        self.writable = asyncio.Event()
        self.writable.set()
        self.written: list[str] = []

    def pause(self) -> None:
        self.is_writable = False
        self.writable.clear()

    def resume(self) -> None:
        self.is_writable = True
        self.writable.set()

    def write(self, payload: bytes, frame: bytes) -> None:
        assert frame.endswith(payload)
        self.written.append(payload.decode())

    def subscribe(self, on_frame: Callable[[str], bool], *, grant: Callable[[float], float]) -> None:
        """No frames arrive."""

    def frame_handled(self) -> None:
        """No frames arrive."""


class Connection:
    """Records what its outbox writes, through an extension or by `send`."""

    def __init__(
        self, extension: FakeExtension | None = None, *, budget: QueueBudget | None = None, user: str = "ada"
    ) -> None:
        self.extension = extension
        self.sent: list[str] = []
        self.has_overflowed = self.is_broken = False
        self.outbox = Outbox(
            self.send,
            extension=extension,
            resize=(budget or QueueBudget()).open(UserId(user)),
            on_overflow=self.on_overflow,
            on_broken=self.on_broken,
        )

    async def send(self, text: str) -> None:
        self.sent.append(text)

    @property
    def written(self) -> list[str]:
        return [*self.sent, *(self.extension.written if self.extension is not None else [])]

    def on_overflow(self) -> None:
        self.has_overflowed = True

    def on_broken(self) -> None:
        self.is_broken = True


def message(sequence: int, chat: str = "chat_a") -> Frame:
    return delivered([{"type": "message", "chat_id": chat, "sequence": sequence}])[0]


async def run_tasks() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class TestOutbox:
    async def test_the_first_frame_goes_before_frames_that_were_put_early(self) -> None:
        connection = Connection()
        connection.outbox.put(Plain(b"early"))
        await run_tasks()
        assert connection.written == []
        connection.outbox.open_with(Plain(b"connected"))
        await run_tasks()
        assert connection.written == ["connected", "early"]

    async def test_a_socket_that_ended_before_it_was_open_gets_nothing(self) -> None:
        connection = Connection()
        connection.outbox.close()
        connection.outbox.open_with(Plain(b"connected"))
        await run_tasks()
        assert connection.written == []

    async def test_a_client_that_keeps_up_is_written_to_directly(self) -> None:
        connection = Connection(FakeExtension())
        connection.outbox.open_with(Plain(b"connected"))
        await run_tasks()
        connection.outbox.put(Plain(b"at once"))
        assert connection.written == ["connected", "at once"]

    @pytest.mark.parametrize("is_waiting", [False, True])
    async def test_a_socket_that_cannot_be_written_to_is_given_up_and_nothing_is_raised(self, is_waiting: bool) -> None:
        extension = FakeExtension()
        connection = Connection(extension)
        connection.outbox.open_with(Plain(b"connected"))
        await run_tasks()
        if is_waiting:
            extension.pause()
        extension.write = Mock(side_effect=ConnectionResetError)  # type: ignore[method-assign]
        connection.outbox.put(Plain(b"lost"))
        connection.outbox.put(Plain(b"lost too"))
        extension.resume()
        await run_tasks()
        assert connection.is_broken
        extension.write.assert_called_once()

    async def test_messages_of_one_chat_that_wait_are_coalesced(self) -> None:
        extension = FakeExtension()
        connection = Connection(extension)
        connection.outbox.open_with(Plain(b"connected"))
        await run_tasks()
        extension.pause()
        for sequence in (1, 2, 3):
            connection.outbox.put(message(sequence))
        connection.outbox.put(message(1, "chat_b"))
        await run_tasks()
        assert len(connection.written) == 1
        extension.resume()
        await run_tasks()
        batch, single = (json.loads(text) for text in connection.written[1:])
        assert [item["sequence"] for item in batch["messages"]] == [1, 2, 3]
        assert single["chat_id"] == "chat_b"

    async def test_the_queue_of_a_client_that_does_not_read_overflows_and_is_dropped(self) -> None:
        extension = FakeExtension()
        extension.pause()
        connection = Connection(extension)
        connection.outbox.open_with(Plain(b"connected"))
        for _ in range(MAX_FRAMES):
            connection.outbox.put(Plain(b"x"))
        assert connection.has_overflowed
        connection.outbox.put(Plain(b"more"))
        extension.resume()
        await run_tasks()
        assert connection.written == []

    async def test_large_frames_overflow_by_their_size(self) -> None:
        connection = Connection()
        for _ in range(5):
            connection.outbox.put(Plain(b"x" * 1024 * 1024))
        assert connection.has_overflowed


def slow(budget: QueueBudget, user: str = "ada") -> Connection:
    """Of a client that does not read."""
    extension = FakeExtension()
    extension.pause()
    connection = Connection(extension, budget=budget, user=user)
    connection.outbox.open_with(Plain(b"connected"))
    return connection


class TestBudget:
    async def test_the_queues_of_a_user_overflow_together_and_those_of_others_do_not(self) -> None:
        budget = QueueBudget(per_user=1_000)
        own, other = [slow(budget) for _ in range(10)], slow(budget, "bob")
        for connection in (*own, other):
            connection.outbox.put(Plain(b"x" * 200))
        assert [connection.has_overflowed for connection in own] == [False] * 4 + [True] * 6
        assert not other.has_overflowed

    async def test_all_queues_together_are_bounded(self) -> None:
        budget = QueueBudget(total=1_000)
        connections = [slow(budget, f"user {number}") for number in range(10)]
        for connection in connections:
            connection.outbox.put(Plain(b"x" * 200))
        assert [connection.has_overflowed for connection in connections] == [False] * 4 + [True] * 6

    async def test_what_was_written_coalesced_or_dropped_is_given_back(self) -> None:
        budget = QueueBudget()
        read, left, coalesced = slow(budget), slow(budget), slow(budget)
        for connection in (read, left, coalesced):
            for sequence in range(1, 10):
                connection.outbox.put(message(sequence))
        left.outbox.close()
        for connection in (read, coalesced):
            assert connection.extension is not None
            connection.extension.resume()
            await run_tasks()
        assert (budget._held, dict(budget._held_by)) == (0, {})
