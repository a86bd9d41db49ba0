"""What waits to be written to one connection."""

import asyncio
import json
from collections.abc import Callable

from delivery.gateway import frames
from delivery.gateway.frames import Plain
from delivery.gateway.outbox import MAX_FRAMES, Outbox


class Light:
    """A line whose traffic light the test switches."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.written: list[bytes] = []

    @property
    def is_open(self) -> bool:
        return self.open.is_set()

    @is_open.setter
    def is_open(self, value: bool) -> None:
        """The light is switched by its event."""

    def write(self, frame: bytes) -> None:
        self.written.append(frame)

    def bring_frames(self, taker: Callable[[str], bool]) -> None:
        """Nothing comes in here."""

    def frame_taken(self) -> None:
        """Nobody is held back here."""


class Wire:
    """Collects what is written, by the line or without one, and notes an overflow."""

    def __init__(self, light: Light | None = None) -> None:
        self.light = light
        self.sent: list[str] = []
        self.overflowed = False
        self.outbox = Outbox(self.send, line=light, overflow=self.overflow)

    async def send(self, text: str) -> None:
        self.sent.append(text)

    @property
    def written(self) -> list[str]:
        """Texts; frames here are too short for a longer header than two bytes, or have one of four."""
        frames = self.light.written if self.light is not None else []
        return [*self.sent, *(frame[2 if frame[1] < 126 else 4 :].decode() for frame in frames)]

    def overflow(self) -> None:
        self.overflowed = True


def message(sequence: int, chat: str = "chat_a") -> frames.Frame:
    return frames.delivered([{"type": "message", "chat_id": chat, "sequence": sequence}])[0]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class TestOutbox:
    async def test_the_greeting_goes_before_what_came_early(self) -> None:
        wire = Wire()
        wire.outbox.put(Plain(b"early"))
        await settle()
        assert wire.written == []
        wire.outbox.open_with(Plain(b"connected"))
        await settle()
        assert wire.written == ["connected", "early"]

    async def test_a_socket_that_ended_before_it_was_greeted_gets_nothing(self) -> None:
        wire = Wire()
        wire.outbox.close()
        wire.outbox.open_with(Plain(b"connected"))
        await settle()
        assert wire.written == []

    async def test_messages_of_one_chat_that_wait_together_travel_together(self) -> None:
        light = Light()
        wire = Wire(light)
        wire.outbox.open_with(Plain(b"connected"))
        await settle()
        light.open.clear()
        for sequence in (1, 2, 3):
            wire.outbox.put(message(sequence))
        wire.outbox.put(message(1, "chat_b"))
        await settle()
        assert len(wire.written) == 1
        light.open.set()
        await settle()
        batch, single = (json.loads(text) for text in wire.written[1:])
        assert [item["sequence"] for item in batch["messages"]] == [1, 2, 3]
        assert single["chat_id"] == "chat_b"

    async def test_a_client_that_does_not_read_is_given_up_and_holds_nothing(self) -> None:
        light = Light()
        light.open.clear()
        wire = Wire(light)
        wire.outbox.open_with(Plain(b"connected"))
        for _ in range(MAX_FRAMES):
            wire.outbox.put(Plain(b"x"))
        assert wire.overflowed
        wire.outbox.put(Plain(b"more"))
        light.open.set()
        await settle()
        assert wire.written == []

    async def test_large_frames_overflow_by_their_size(self) -> None:
        wire = Wire()
        for _ in range(5):
            wire.outbox.put(Plain(b"x" * 1024 * 1024))
        assert wire.overflowed
