"""The two lanes that pass autobahn by: what they take, and what they leave to it."""

import asyncio
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from autobahn.websocket.protocol import WebSocketProtocol
from hypothesis import given
from hypothesis import strategies as st

from foundation.server.autobahn import FRAMES_AHEAD, ParleySocket, SocketLine

LIMIT = 16 * 1024


class Reader(ParleySocket):
    """An open socket: what the fast lane took, and what autobahn was given."""

    def __init__(self) -> None:
        self.state = self.STATE_OPEN
        self.data = b""
        self.inside_message = False
        self.current_frame = None
        self.muted = False
        self.autoPingTimeoutCall: Any = None
        self.maxMessagePayloadSize = LIMIT
        self.application_queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.transport = Transport()
        self.left = b""

    def _dataReceived(self, data: bytes) -> None:  # noqa: N802 - autobahn's name
        self.left += data

    @property
    def texts(self) -> list[str]:
        return [self.application_queue.get_nowait()["text"] for _ in range(self.application_queue.qsize())]


class Transport:
    """A socket's transport that takes `room` bytes at once and buffers the rest."""

    TLS = False
    dataBuffer = b""  # noqa: N815 - Twisted's name
    disconnecting = False
    connected = True

    def __init__(self, room: int = 1 << 20) -> None:
        self.room = room
        self.written = b""
        self.paused = False

    @property
    def _tempDataLen(self) -> int:  # noqa: N802 - Twisted's name
        return len(self.dataBuffer)

    @property
    def socket(self) -> "Transport":
        return self

    def send(self, data: bytes) -> int:
        if not self.room:
            raise BlockingIOError
        taken = data[: self.room]
        self.room -= len(taken)
        self.written += taken
        return len(taken)

    def write(self, data: bytes) -> None:
        self.dataBuffer += data

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.paused = True

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.paused = False


def taking(taken: list[str], but: str = "") -> Callable[[str], bool]:
    """A taker that takes all frames but one."""

    def take(text: str) -> bool:
        taken.append(text)
        return text != but

    return take


def frame(payload: bytes, *, first: int = 0x81, mask: bytes | None = b"\x01\x02\x03\x04") -> bytes:
    size = len(payload)
    length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2)
    if mask is None:
        return bytes([first]) + length + payload
    masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
    return bytes([first, length[0] | 0x80]) + length[1:] + mask + masked


class TestReading:
    @given(st.lists(st.text(min_size=1, max_size=300), max_size=5), st.binary(min_size=4, max_size=4))
    def test_whole_texts_are_taken_whatever_their_mask(self, texts: list[str], mask: bytes) -> None:
        reader = Reader()
        reader.dataReceived(b"".join(frame(text.encode(), mask=mask) for text in texts))
        assert (reader.texts, reader.left) == (texts, b"")

    def test_the_longest_that_is_allowed_is_taken_and_one_byte_more_is_not(self) -> None:
        reader = Reader()
        longest, too_long = frame(b"x" * LIMIT), frame(b"x" * (LIMIT + 1))
        reader.dataReceived(longest + too_long)
        assert [len(text) for text in reader.texts] == [LIMIT]
        assert reader.left == too_long

    @pytest.mark.parametrize(
        "unusual",
        [
            frame(b"text", first=0x01),
            frame(b"text", first=0x80),
            frame(b"bytes", first=0x82),
            frame(b"", first=0x88),
            frame(b"ping", first=0x89),
            frame(b"compressed", first=0xC1),
            frame(b"not masked", mask=None),
            frame(b"\xff\xfe not UTF-8"),
            b"\x81\xfe\x00\x05\x00\x00\x00\x00short",
            b"\x81\xff" + (5).to_bytes(8) + b"\x00\x00\x00\x00short",
            frame(b"cut off")[:-1],
            frame(b"x" * 200)[:3],
            b"\x81",
        ],
    )
    def test_whatever_is_unusual_is_autobahns_with_all_that_follows(self, unusual: bytes) -> None:
        reader = Reader()
        after = frame(b"after")
        reader.dataReceived(frame(b"before") + unusual + after)
        assert (reader.texts, reader.left) == (["before"], unusual + after)

    @pytest.mark.parametrize("state", ["data", "inside_message", "current_frame", "closing"])
    def test_while_autobahn_is_in_the_middle_of_something_everything_is_its_own(self, state: str) -> None:
        reader = Reader()
        if state == "closing":
            reader.state = WebSocketProtocol.STATE_CLOSING
        else:
            setattr(reader, state, b"\x81" if state == "data" else True)
        reader.dataReceived(frame(b"text"))
        assert (reader.texts, reader.left) == ([], frame(b"text"))

    def test_a_text_stands_for_the_answer_to_a_ping(self) -> None:
        reader = Reader()
        reader.autoPingTimeoutCall = Mock()
        reader._cancelAutoPingTimeoutCall = cancelled = Mock()
        reader.dataReceived(frame(b"text"))
        cancelled.assert_called_once_with()

    async def test_a_client_that_runs_ahead_is_stopped_until_its_frames_are_taken(self) -> None:
        reader = Reader()
        line = SocketLine(reader)
        reader.dataReceived(frame(b"x") * (FRAMES_AHEAD + 1))
        assert reader.transport.paused
        for _ in range(FRAMES_AHEAD):
            reader.application_queue.get_nowait()
            line.frame_taken()
        assert not reader.transport.paused

    def test_the_applications_taker_gets_frames_as_they_arrive(self) -> None:
        reader = Reader()
        taken: list[str] = []
        SocketLine(reader).bring_frames(taking(taken))
        reader.dataReceived(frame(b"one") + frame(b"two"))
        assert (taken, reader.texts) == (["one", "two"], [])

    def test_a_frame_that_the_taker_leaves_waits_and_none_passes_it(self) -> None:
        reader = Reader()
        taken: list[str] = []
        SocketLine(reader).bring_frames(taking(taken, but="wait"))
        reader.dataReceived(frame(b"one") + frame(b"wait") + frame(b"behind"))
        assert (taken, reader.texts) == (["one", "wait"], ["wait", "behind"])
        reader.dataReceived(frame(b"after"))
        assert taken[-1] == "after"

    def test_one_client_does_not_keep_the_others_waiting_with_many_frames_at_once(self) -> None:
        reader = Reader()
        taken: list[str] = []
        SocketLine(reader).bring_frames(taking(taken))
        reader.dataReceived(frame(b"x") * (FRAMES_AHEAD + 3))
        assert (len(taken), len(reader.texts)) == (FRAMES_AHEAD, 3)


class TestWriting:
    def line(self, *, room: int) -> tuple[SocketLine, Transport]:
        reader = Reader()
        transport = reader.transport = Transport(room)
        line = SocketLine(reader)
        line._is_plain = True
        return line, transport

    async def test_what_the_socket_takes_is_written_at_once(self) -> None:
        line, transport = self.line(room=100)
        line.write(b"frame")
        assert (transport.written, transport.dataBuffer) == (b"frame", b"")

    async def test_what_it_does_not_take_waits_and_nothing_overtakes_it(self) -> None:
        line, transport = self.line(room=3)
        line.write(b"first")
        transport.room = 100
        line.write(b"second")
        assert (transport.written, transport.dataBuffer) == (b"fir", b"stsecond")

    async def test_a_full_socket_takes_nothing(self) -> None:
        line, transport = self.line(room=0)
        line.write(b"frame")
        assert (transport.written, transport.dataBuffer) == (b"", b"frame")

    async def test_a_client_that_is_leaving_gets_nothing(self) -> None:
        line, transport = self.line(room=100)
        line._socket.state = WebSocketProtocol.STATE_CLOSING
        line.write(b"frame")
        assert (transport.written, transport.dataBuffer) == (b"", b"")

    async def test_a_connection_that_was_lost_while_it_was_opened_gets_nothing(self) -> None:
        line, transport = self.line(room=100)
        transport.connected = False
        line.write(b"frame")
        assert (transport.written, transport.dataBuffer) == (b"", b"")

    async def test_under_tls_nothing_passes_the_encryption_by(self) -> None:
        reader = Reader()
        line = SocketLine(reader)
        line.write(b"frame")
        assert (reader.transport.written, reader.transport.dataBuffer) == (b"", b"frame")
