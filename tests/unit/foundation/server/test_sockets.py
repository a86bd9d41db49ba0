"""Sockets by the public interfaces and by the fast path: both read and write alike, the fast path with fewer calls."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import Mock

import pytest
from autobahn.twisted.websocket import WebSocketServerFactory
from autobahn.websocket.protocol import WebSocketProtocol
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.testing import MemoryReactorClock, StringTransport

from foundation.server.autobahn import FastFlowControl, FastSocket
from foundation.server.extension import FRAME_BURST, FRAME_RATE
from foundation.server.sockets import (
    BYTES_PER_TOKEN,
    CLOSE_TIMEOUT,
    CLOSED_BURST,
    MAX_FRAMES_AHEAD,
    PAUSE_WITHOUT_GRANT,
    FlowControl,
    ParleySocket,
)

LIMIT = 16 * 1024
RFC_6455 = 13
SERVICE_RESTART = 1012
MESSAGE_TOO_BIG = 1009

REACTOR: Any = MemoryReactorClock()  # type: ignore[no-untyped-call]
FACTORY: Any = WebSocketServerFactory(reactor=REACTOR)  # type: ignore[no-untyped-call]
FACTORY.setProtocolOptions(maxFramePayloadSize=LIMIT, maxMessagePayloadSize=LIMIT, openHandshakeTimeout=0)


class Transport(StringTransport):
    """Twisted's transport: `dataBuffer` is what was written to it, `sent` what its socket took directly."""

    TLS = False
    _tempDataLen = 0  # noqa: N815 - Twisted's name

    def __init__(self, *, room: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.room = room
        self.sent = b""
        self.error = 0

    @property
    def dataBuffer(self) -> bytes:  # noqa: N802 - Twisted's name
        return bytes(self.value())  # type: ignore[no-untyped-call]

    @property
    def socket(self) -> "Transport":
        return self

    def getHandle(self) -> "Transport":  # noqa: N802 - Twisted's name
        return self

    def getsockopt(self, level: int, option: int) -> int:
        """Reading the error clears it, as the operating system does."""
        error, self.error = self.error, 0
        return error

    def send(self, data: bytes) -> int:
        if not self.room:
            raise BlockingIOError
        taken = data[: self.room]
        self.room -= len(taken)
        self.sent += taken
        return len(taken)

    def abortConnection(self) -> None:  # noqa: N802 - Twisted's name
        self.connected = False

    def unregisterProducer(self) -> None:  # noqa: N802 - Twisted's name
        """Unlike `StringTransport`, Twisted's sockets allow it without a producer."""

    @property
    def is_paused(self) -> bool:
        return self.producerState == "paused"


def opened(kind: type[ParleySocket], transport: Transport | None = None) -> Any:
    """A socket as it is when the application has accepted its client."""
    socket = handshaken(kind, transport)
    socket.accept_bursts(everything)
    return socket


def everything(wanted: float) -> float:
    """Grants what is asked for."""
    return wanted


def handshaken(kind: type[ParleySocket], transport: Transport | None = None) -> Any:
    """A socket as it is after the handshake."""
    socket: Any = kind()
    socket.factory = FACTORY
    socket.closeHandshakeTimeout = 0
    socket.makeConnection(transport or Transport())
    socket.state = WebSocketProtocol.STATE_OPEN
    socket.websocket_version = RFC_6455
    socket.inside_message = False
    socket.current_frame = None
    socket.client_addr = None
    socket.application_queue = asyncio.Queue()
    return socket


def texts(socket: Any) -> list[str]:
    """What the application would receive."""
    queue = socket.application_queue
    return [queue.get_nowait()["text"] for _ in range(queue.qsize())]


def frame(payload: bytes, *, first: int = 0x81, mask: bytes | None = b"\x01\x02\x03\x04") -> bytes:
    size = len(payload)
    length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2)
    if mask is None:
        return bytes([first]) + length + payload
    masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
    return bytes([first, length[0] | 0x80]) + length[1:] + mask + masked


def close_frame(code: int) -> bytes:
    return b"\x88\x02" + code.to_bytes(2)


BOTH_KINDS = pytest.mark.parametrize("kind", [ParleySocket, FastSocket])
BOTH_CONTROLS = pytest.mark.parametrize(
    ("kind", "control"), [(ParleySocket, FlowControl), (FastSocket, FastFlowControl)]
)
UNUSUAL = [
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
]


class TestReading:
    @BOTH_KINDS
    @given(
        sent=st.lists(st.text(min_size=1, max_size=300), max_size=5),
        mask=st.binary(min_size=4, max_size=4),
        cut=st.integers(min_value=0, max_value=2000),
    )
    def test_texts_arrive_whatever_their_mask_and_wherever_they_are_cut(
        self, kind: type[ParleySocket], sent: list[str], mask: bytes, cut: int
    ) -> None:
        socket = opened(kind)
        data = b"".join(frame(text.encode(), mask=mask) for text in sent)
        for piece in (data[:cut], data[cut:]):
            if piece:
                socket.dataReceived(piece)
        assert texts(socket) == sent

    @BOTH_KINDS
    def test_the_longest_text_that_is_allowed_arrives_and_one_byte_more_ends_the_socket(
        self, kind: type[ParleySocket]
    ) -> None:
        socket = opened(kind)
        socket.dataReceived(frame(b"x" * LIMIT) + frame(b"x" * (LIMIT + 1)))
        assert [len(text) for text in texts(socket)] == [LIMIT]
        assert socket.transport.dataBuffer[2:4] == MESSAGE_TOO_BIG.to_bytes(2)
        assert socket.state == WebSocketProtocol.STATE_CLOSING

    @BOTH_KINDS
    def test_fragments_are_joined_and_a_ping_between_them_is_answered(self, kind: type[ParleySocket]) -> None:
        socket = opened(kind)
        ping = frame(b"ping", first=0x89)
        socket.dataReceived(frame(b"one ", first=0x01) + ping + frame(b"text", first=0x80) + frame(b"next"))
        assert texts(socket) == ["one text", "next"]
        assert socket.transport.dataBuffer == b"\x8a\x04ping"

    @pytest.mark.parametrize("unusual", UNUSUAL)
    def test_both_react_alike_to_whatever_is_unusual(self, unusual: bytes) -> None:
        outcomes = []
        for kind in (ParleySocket, FastSocket):
            socket = opened(kind)
            socket.dataReceived(frame(b"before") + unusual + frame(b"after"))
            queue = socket.application_queue
            events = [queue.get_nowait() for _ in range(queue.qsize())]
            outcomes.append((events, socket.transport.dataBuffer, socket.state))
        assert outcomes[0] == outcomes[1]

    @BOTH_KINDS
    def test_a_muted_socket_passes_nothing_on(self, kind: type[ParleySocket]) -> None:
        socket = opened(kind)
        socket.muted = True
        socket.dataReceived(frame(b"text"))
        assert texts(socket) == []

    @BOTH_CONTROLS
    async def test_a_client_that_is_ahead_is_paused_until_its_frames_are_handled(
        self, kind: type[ParleySocket], control: type[FlowControl]
    ) -> None:
        socket = opened(kind)
        extension = control(socket)
        socket.dataReceived(frame(b"x") * MAX_FRAMES_AHEAD)
        assert not socket.transport.is_paused
        socket.dataReceived(frame(b"x"))
        assert socket.transport.is_paused
        for _ in range(MAX_FRAMES_AHEAD):
            socket.application_queue.get_nowait()
            extension.frame_handled()
        assert not socket.transport.is_paused

    @BOTH_KINDS
    @pytest.mark.parametrize("data", [frame(b"text"), frame(b"ping", first=0x89)])
    def test_a_connection_that_failed_meanwhile_is_aborted(self, kind: type[ParleySocket], data: bytes) -> None:
        socket = opened(kind)
        socket.dataReceived(data)
        assert socket.transport.connected
        socket.transport.error = 104
        socket.dataReceived(data)
        assert not socket.transport.connected

    async def test_by_the_public_interfaces_frames_are_events_though_the_application_has_subscribed(self) -> None:
        socket = opened(ParleySocket)
        handled: list[str] = []
        FlowControl(socket).subscribe(handling(handled), grant=everything)
        socket.dataReceived(frame(b"one") + frame(b"two"))
        assert (handled, texts(socket)) == ([], ["one", "two"])


PING = frame(b"ping", first=0x89)
EVERY_KIND = [
    pytest.param(frame(b"{}"), 0x81, id="text"),
    pytest.param(PING, 0x89, id="ping"),
    pytest.param(frame(b"", first=0x8A), 0x8A, id="pong"),
    pytest.param(frame(b"", first=0x00), 0x00, id="empty continuation"),
]


class Counting:
    """Counts the frames that a socket parses, on either path."""

    def __init__(self, socket: Any) -> None:
        self.parsed = 0
        self._begin, socket.onFrameBegin = socket.onFrameBegin, self._on_frame_begin
        if isinstance(socket, FastSocket):
            fast: Any = socket
            self._receive, fast._receive = fast._receive, self._on_text

    def _on_frame_begin(self) -> None:
        self.parsed += 1
        self._begin()

    def _on_text(self, text: str, *, direct: bool) -> None:
        self.parsed += 1
        self._receive(text, direct=direct)


def drain(socket: Any) -> None:
    """Handle the frames that wait for the application."""
    while not socket.application_queue.empty():
        socket.application_queue.get_nowait()
        socket.resume_if_caught_up()


class TestThePace:
    @BOTH_KINDS
    @pytest.mark.parametrize(("sent", "first"), EVERY_KIND)
    def test_every_frame_counts_and_over_the_pace_a_client_is_not_read(
        self, kind: type[ParleySocket], sent: bytes, first: int
    ) -> None:
        socket = opened(kind)
        counting = Counting(socket)
        if first == 0x00:
            socket.dataReceived(frame(b"", first=0x01))
        socket.dataReceived(sent * 3 * int(FRAME_BURST))
        drain(socket)
        assert FRAME_BURST - 10 <= counting.parsed <= FRAME_BURST
        assert socket.transport.is_paused
        before = counting.parsed
        for _ in range(10):
            REACTOR.advance(0.1)
            drain(socket)
        assert FRAME_RATE / 2 <= counting.parsed - before <= FRAME_RATE + 1

    @BOTH_KINDS
    def test_what_waited_is_handled_in_order_and_then_the_client_is_read_again(self, kind: type[ParleySocket]) -> None:
        socket = opened(kind)
        sent = [f"{number}" for number in range(int(FRAME_BURST) + 100)]
        socket.dataReceived(b"".join(frame(text.encode()) for text in sent))
        received = []
        for _ in range(10):
            received += texts(socket)
            socket.resume_if_caught_up()
            REACTOR.advance(0.1)
        assert received == sent
        assert not socket.transport.is_paused

    @BOTH_KINDS
    def test_a_client_that_is_granted_nothing_is_not_read_until_it_is(self, kind: type[ParleySocket]) -> None:
        left = [10.5]

        def grant(wanted: float) -> float:
            granted, left[0] = min(wanted, left[0]), max(0.0, left[0] - wanted)
            return granted

        socket = handshaken(kind)
        socket.accept_bursts(grant)
        counting = Counting(socket)
        socket.dataReceived(PING * 20)
        for _ in range(3):
            REACTOR.advance(PAUSE_WITHOUT_GRANT)
        assert counting.parsed == 10
        assert socket.transport.is_paused
        left[0] = 1_000.0
        REACTOR.advance(PAUSE_WITHOUT_GRANT)
        assert counting.parsed == 20
        assert not socket.transport.is_paused

    @BOTH_KINDS
    def test_a_payload_counts_by_its_bytes_also_one_without_end(self, kind: type[ParleySocket]) -> None:
        socket = opened(kind)
        socket.dataReceived(b"\x81\xff" + (1 << 40).to_bytes(8) + b"mask")
        assert socket.state == WebSocketProtocol.STATE_CLOSING
        pieces = 0
        while not socket.transport.is_paused:
            socket.dataReceived(b"x" * 65_536)
            pieces += 1
        assert pieces <= CLOSED_BURST * BYTES_PER_TOKEN / 65_536 + 1

    @BOTH_KINDS
    @pytest.mark.parametrize("is_closing", [False, True])
    def test_a_socket_that_was_not_accepted_or_is_closed_has_a_small_burst(
        self, kind: type[ParleySocket], is_closing: bool
    ) -> None:
        socket = handshaken(kind)
        if is_closing:
            socket.accept_bursts(everything)
            socket.serverClose(4401)
        counting = Counting(socket)
        socket.dataReceived(PING * 10_000)
        assert counting.parsed <= CLOSED_BURST
        assert socket.transport.is_paused

    @BOTH_KINDS
    def test_nothing_is_read_before_the_handshake_is_answered(self, kind: type[ParleySocket]) -> None:
        socket = handshaken(kind)
        socket.state = WebSocketProtocol.STATE_CONNECTING
        socket.handshake_deferred = Mock()
        socket.dataReceived(frame(b"early"))
        assert socket.transport.is_paused
        socket.server, socket.request = Mock(), Mock()
        socket.state = WebSocketProtocol.STATE_OPEN
        socket.onOpen()
        socket.consumeData()
        assert (texts(socket), socket.transport.is_paused) == (["early"], False)

    @BOTH_KINDS
    def test_a_timer_does_not_outlive_its_connection(self, kind: type[ParleySocket]) -> None:
        socket = opened(kind)
        socket.dataReceived(PING * 10_000)
        socket.connectionLost(Mock())
        assert not socket._over_pace.active()


class TestPings:
    @BOTH_KINDS
    def test_of_pings_that_arrive_together_the_latest_is_answered(self, kind: type[ParleySocket]) -> None:
        socket = opened(kind)
        socket.dataReceived(frame(b"1", first=0x89) + frame(b"2", first=0x89))
        assert socket.transport.dataBuffer == b"\x8a\x012"

    @BOTH_CONTROLS
    async def test_a_client_that_does_not_read_gets_one_pong_when_it_does(
        self, kind: type[ParleySocket], control: type[FlowControl]
    ) -> None:
        socket = opened(kind)
        extension = control(socket)
        extension.pauseProducing()
        for number in range(5):
            socket.dataReceived(frame(b"%d" % number, first=0x89))
        assert socket.transport.dataBuffer == b""
        extension.resumeProducing()
        assert socket.transport.dataBuffer == b"\x8a\x014"


class TestClosing:
    @BOTH_KINDS
    def test_a_client_that_does_not_read_the_rest_is_cut_off(self, kind: type[ParleySocket]) -> None:
        socket = opened(kind)
        socket.dataReceived(frame((1000).to_bytes(2), first=0x88))
        assert socket.transport.connected
        REACTOR.advance(CLOSE_TIMEOUT + 0.1)
        assert not socket.transport.connected

    @BOTH_KINDS
    def test_a_handshake_that_is_not_answered_in_time_is_aborted(self, kind: type[ParleySocket]) -> None:
        socket: Any = kind()
        socket.factory = FACTORY
        socket.makeConnection(Transport())
        socket.handshake_deferred = Mock()
        socket.onOpenHandshakeTimeout()
        assert not socket.transport.connected

    @BOTH_KINDS
    def test_a_refused_handshake_ends_without_a_traceback(self, kind: type[ParleySocket]) -> None:
        socket: Any = kind()
        socket.factory = FACTORY
        socket.makeConnection(Transport())
        socket.dataReceived(b"GET /ws HTTP/1.1\r\nHost: [::1\r\nUpgrade: websocket\r\n\r\n")
        assert b" 400 " in socket.transport.dataBuffer
        socket.onClose(False, 1006, "lost")


class Reader(FastSocket):
    """Collects the data that is left to autobahn."""

    left = b""

    def _dataReceived(self, data: bytes) -> None:  # noqa: N802 - autobahn's name
        self.left += data


def handling(handled: list[str], but: str = "") -> Callable[[str], bool]:
    """An `on_frame` that handles all frames but one."""

    def on_frame(text: str) -> bool:
        handled.append(text)
        return text != but

    return on_frame


class TestFastReading:
    @given(st.lists(st.text(min_size=1, max_size=300), max_size=5), st.binary(min_size=4, max_size=4))
    def test_whole_texts_do_not_reach_autobahn(self, sent: list[str], mask: bytes) -> None:
        reader = opened(Reader)
        reader.dataReceived(b"".join(frame(text.encode(), mask=mask) for text in sent))
        assert (texts(reader), reader.left) == (sent, b"")

    def test_a_text_above_the_limit_is_left_to_autobahn(self) -> None:
        reader = opened(Reader)
        longest, too_long = frame(b"x" * LIMIT), frame(b"x" * (LIMIT + 1))
        reader.dataReceived(longest + too_long)
        assert [len(text) for text in texts(reader)] == [LIMIT]
        assert reader.left == too_long

    @pytest.mark.parametrize("unusual", UNUSUAL)
    def test_whatever_is_unusual_is_left_to_autobahn_with_all_that_follows(self, unusual: bytes) -> None:
        reader = opened(Reader)
        after = frame(b"after")
        reader.dataReceived(frame(b"before") + unusual + after)
        assert (texts(reader), reader.left) == (["before"], unusual + after)

    @pytest.mark.parametrize("state", ["data", "inside_message", "current_frame", "closing"])
    def test_while_autobahn_is_in_the_middle_of_a_message_everything_is_left_to_it(self, state: str) -> None:
        reader = opened(Reader)
        if state == "closing":
            reader.state = WebSocketProtocol.STATE_CLOSING
        else:
            setattr(reader, state, b"\x81" if state == "data" else True)
        reader.dataReceived(frame(b"text"))
        assert (texts(reader), reader.left) == ([], frame(b"text"))

    def test_a_text_counts_as_the_answer_to_a_ping(self) -> None:
        reader = opened(Reader)
        reader.autoPingTimeoutCall = Mock()
        reader._cancelAutoPingTimeoutCall = cancel = Mock()
        reader.dataReceived(frame(b"text"))
        cancel.assert_called_once_with()

    async def test_a_subscribed_application_gets_frames_as_they_arrive(self) -> None:
        reader = opened(Reader)
        handled: list[str] = []
        FastFlowControl(reader).subscribe(handling(handled), grant=everything)
        reader.dataReceived(frame(b"one") + frame(b"two"))
        assert (handled, texts(reader)) == (["one", "two"], [])

    async def test_a_frame_that_it_does_not_handle_waits_and_no_other_overtakes_it(self) -> None:
        reader = opened(Reader)
        handled: list[str] = []
        FastFlowControl(reader).subscribe(handling(handled, but="wait"), grant=everything)
        reader.dataReceived(frame(b"one") + frame(b"wait") + frame(b"behind"))
        assert (handled, texts(reader)) == (["one", "wait"], ["wait", "behind"])
        reader.dataReceived(frame(b"after"))
        assert handled[-1] == "after"

    async def test_one_client_does_not_delay_the_others_with_many_frames_at_once(self) -> None:
        reader = opened(Reader)
        handled: list[str] = []
        FastFlowControl(reader).subscribe(handling(handled), grant=everything)
        reader.dataReceived(frame(b"x") * (MAX_FRAMES_AHEAD + 3))
        assert (len(handled), len(texts(reader))) == (MAX_FRAMES_AHEAD, 3)


class TestWriting:
    @BOTH_CONTROLS
    @pytest.mark.parametrize("payload", [b"hello", "chät".encode(), b"x" * 200, b"x" * (2 * LIMIT)])
    async def test_a_text_leaves_as_one_frame_also_above_the_limit_for_clients(
        self, kind: type[ParleySocket], control: type[FlowControl], payload: bytes
    ) -> None:
        socket = opened(kind)
        encoded = frame(payload, mask=None)
        control(socket).write(payload, encoded)
        assert socket.transport.dataBuffer == encoded
        assert socket.maxMessagePayloadSize == LIMIT

    @BOTH_CONTROLS
    async def test_a_client_that_is_leaving_gets_nothing(
        self, kind: type[ParleySocket], control: type[FlowControl]
    ) -> None:
        socket = opened(kind)
        extension = control(socket)
        socket.state = WebSocketProtocol.STATE_CLOSING
        extension.write(b"text", frame(b"text", mask=None))
        assert socket.transport.dataBuffer == b""

    @BOTH_CONTROLS
    async def test_it_is_writable_while_twisted_does_not_pause_it(
        self, kind: type[ParleySocket], control: type[FlowControl]
    ) -> None:
        extension: Any = control(opened(kind))
        seen: list[bool] = [extension.is_writable]
        for change in (extension.pauseProducing, extension.resumeProducing, extension.pauseProducing):
            change()
            seen.append(extension.is_writable)
            assert extension.writable.is_set() == extension.is_writable
        assert seen == [True, False, True, False]
        extension.stopProducing()
        assert extension.writable.is_set()

    @BOTH_KINDS
    @pytest.mark.parametrize(("code", "sent"), [(SERVICE_RESTART, SERVICE_RESTART), (4401, 4401), (None, 1000)])
    def test_the_server_may_close_with_any_code(self, kind: type[ParleySocket], code: int | None, sent: int) -> None:
        socket = opened(kind)
        socket.serverClose(code)
        assert socket.transport.dataBuffer == close_frame(sent)


class TestFastWriting:
    def write(self, transport: Transport, frames: Sequence[bytes], *, state: int | None = None) -> tuple[bytes, bytes]:
        """Write the frames; return what the socket took at once and what waits in Twisted's buffer."""
        socket = opened(FastSocket, transport)
        extension = FastFlowControl(socket)
        extension._is_plain = True
        if state is not None:
            socket.state = state
        for each in frames:
            extension.write(b"", each)
        return transport.sent, transport.dataBuffer

    async def test_what_the_socket_takes_is_written_at_once(self) -> None:
        assert self.write(Transport(room=100), [b"frame"]) == (b"frame", b"")

    async def test_what_it_does_not_take_waits_and_no_frame_overtakes_it(self) -> None:
        transport = Transport(room=3)
        assert self.write(transport, [b"first"]) == (b"fir", b"st")
        transport.room = 100
        assert self.write(transport, [b"second"]) == (b"fir", b"stsecond")

    async def test_a_full_socket_takes_nothing(self) -> None:
        assert self.write(Transport(room=0), [b"frame"]) == (b"", b"frame")

    async def test_a_client_that_is_leaving_gets_nothing(self) -> None:
        closing = WebSocketProtocol.STATE_CLOSING
        assert self.write(Transport(room=100), [b"frame"], state=closing) == (b"", b"")

    async def test_a_connection_that_was_lost_while_it_was_opened_gets_nothing(self) -> None:
        transport = Transport(room=100)
        transport.connected = False
        assert self.write(transport, [b"frame"]) == (b"", b"")

    async def test_under_tls_no_frame_passes_the_encryption_by(self) -> None:
        transport = Transport(room=100)
        FastFlowControl(opened(FastSocket, transport)).write(b"", b"frame")
        assert (transport.sent, transport.dataBuffer) == (b"", b"frame")
