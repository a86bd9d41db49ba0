import asyncio
from collections.abc import Sequence

import pytest

from bench.websocket import WebSocket, frame

UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


class Recorder(asyncio.Transport):
    """Records what a socket writes."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def abort(self) -> None:
        """Nothing to close."""


def served(payload: bytes, *, opcode: int = 1) -> bytes:
    """A frame as a server sends it: not masked."""
    size = len(payload)
    if size < 126:
        return bytes((0x80 | opcode, size)) + payload
    if size < 2**16:
        return bytes((0x80 | opcode, 126)) + size.to_bytes(2) + payload
    return bytes((0x80 | opcode, 127)) + size.to_bytes(8) + payload


def fed(pieces: Sequence[bytes]) -> tuple[WebSocket, list[bytes], Recorder]:
    got, recorder = list[bytes](), Recorder()
    socket = WebSocket(got.append)
    socket.connection_made(recorder)
    for piece in pieces:
        socket.data_received(piece)
    return socket, got, recorder


class TestWebSocket:
    async def test_the_first_frame_resolves_ready_and_the_rest_is_received(self) -> None:
        socket, got, _ = fed([UPGRADED + served(b"connected") + served(b"one") + served(b"two")])
        assert await socket.ready == b"connected"
        assert got == [b"one", b"two"]
        assert socket.is_open

    @pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
    async def test_frames_of_any_size_arrive_whole(self, size: int) -> None:
        _, got, _ = fed([UPGRADED + served(b"connected"), served(b"x" * size) + served(b"after")])
        assert got == [b"x" * size, b"after"]

    async def test_frames_arrive_whole_however_the_network_cuts_them(self) -> None:
        whole = UPGRADED + served(b"connected") + served(b"y" * 300) + served(b"two")
        _, got, _ = fed([whole[place : place + 1] for place in range(len(whole))])
        assert got == [b"y" * 300, b"two"]

    async def test_a_ping_is_answered(self) -> None:
        _, got, recorder = fed([UPGRADED + served(b"connected") + served(b"hello", opcode=9)])
        assert recorder.written == [frame(b"hello", opcode=10)]
        assert got == []

    async def test_a_close_frame_gives_its_code(self) -> None:
        socket, _, recorder = fed([UPGRADED + served(b"connected") + served((4409).to_bytes(2), opcode=8)])
        assert await socket.closed == 4409
        socket.write(b"too late")
        assert recorder.written == []

    async def test_a_refused_upgrade_is_an_error(self) -> None:
        socket, _, _ = fed([b"HTTP/1.1 403 Forbidden\r\n\r\n"])
        with pytest.raises(ConnectionError, match="403"):
            await socket.ready

    async def test_a_connection_that_ends_before_it_is_ready_is_an_error(self) -> None:
        socket, _, _ = fed([UPGRADED])
        socket.connection_lost(None)
        with pytest.raises(ConnectionError):
            await socket.ready
        assert not socket.is_open

    @pytest.mark.parametrize("size", [5, 125, 126, 5_000])
    def test_what_is_written_is_a_masked_text_frame(self, size: int) -> None:
        written = frame(b"z" * size)
        assert written[0] == 0x81
        assert written[1] & 0x80
        length = written[1] & 0x7F
        start = 2
        if length == 126:
            length, start = int.from_bytes(written[2:4]), 4
        assert length == size
        assert written[start:] == bytes(4) + b"z" * size
