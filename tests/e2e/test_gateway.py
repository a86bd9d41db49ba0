"""The WebSocket: its handshake, bad frames, order, limits and close codes, on both kinds of sockets."""

import asyncio
import json
import random
import struct
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

import httpx
import pytest
from parley_client import Client
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from delivery.gateway.abuse import BAD_FRAMES_IN_A_ROW
from delivery.gateway.frames import MAX_BYTES
from tests.e2e.sockets import Socket, eventually, listeners, opened, together
from tests.e2e.system import WEBS, Device, System, Web

MINUTE = timedelta(minutes=1)
CONNECTIONS = "parley_gateway_connections"


async def reset(socket: Socket) -> None:
    """Reset a connection: neither a close frame nor a FIN."""
    transport = socket.connection.transport
    transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
    await socket.connection.wait_closed()


@pytest.fixture(scope="module", params=["fast", "plain"])
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The shared system, which has fast sockets, then one with `FAST_SOCKETS=0`."""
    if request.param == "fast":
        yield request.getfixturevalue("system")
        return
    with System(tmp_path_factory.mktemp("plain"), webs=max(2, WEBS), settings={"FAST_SOCKETS": "0"}) as system:
        yield system
    system.require_no_failures()


@pytest.fixture
def device(system: System) -> Device:
    return system.user()


@pytest.fixture
def web(system: System) -> Web:
    return system.webs[0]


class TestTheHandshake:
    async def test_a_header_gets_in(self, web: Web, device: Device) -> None:
        async with opened(web, device) as socket:
            hello = socket.frames[0]
        assert (hello["type"], hello["user_id"], hello["session_id"]) == (
            "connected",
            device.user_id,
            device.session_id,
        )
        assert hello["heartbeat_interval"] == 30

    async def test_subprotocols_get_in_and_the_token_is_not_echoed(self, web: Web, device: Device) -> None:
        async with connect(web.socket_url, subprotocols=["parley.v1", f"bearer.{device.token}"]) as socket:  # type: ignore[list-item]
            assert json.loads(await socket.recv())["type"] == "connected"
            assert socket.subprotocol == "parley.v1"

    async def test_without_a_token_it_is_refused(self, web: Web) -> None:
        with pytest.raises(InvalidStatus) as refusal:
            await connect(web.socket_url)
        assert refusal.value.response.status_code == httpx.codes.FORBIDDEN

    @pytest.mark.parametrize("token", ["nonsense", "a.b.c", "é" * 10, "x" * 5000])
    async def test_a_wrong_token_is_closed_with_4401(self, web: Web, token: str) -> None:
        async with connect(web.socket_url, additional_headers={"Authorization": f"Bearer {token}"}) as connection:
            assert await Socket(connection).closed_with() == 4401

    async def test_an_expired_token_is_closed_with_4401(self, system: System, web: Web, device: Device) -> None:
        expired = system.token(device, lasting=-MINUTE)
        async with connect(web.socket_url, additional_headers={"Authorization": f"Bearer {expired}"}) as connection:
            assert await Socket(connection).closed_with() == 4401

    async def test_a_token_of_a_revoked_session_is_closed_with_4403(
        self, system: System, web: Web, device: Device
    ) -> None:
        system.rest(device, "POST", "/api/auth/logout")
        async with connect(web.socket_url, additional_headers=device.headers) as connection:
            assert await Socket(connection).closed_with() == 4403

    @pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example"])
    async def test_a_foreign_origin_is_refused(self, web: Web, device: Device, origin: str) -> None:
        with pytest.raises(InvalidStatus) as refusal:
            await connect(web.socket_url, additional_headers=device.headers, origin=origin)  # type: ignore[arg-type]
        assert refusal.value.response.status_code == httpx.codes.FORBIDDEN

    async def test_the_own_origin_gets_in(self, web: Web, device: Device) -> None:
        async with opened(web, device, origin=web.url) as socket:
            await socket.catch_up_with_server()

    @pytest.mark.parametrize("path", ["/ws/else", "/", "/?x", "//ws", "/ws%0a", "/%0a"])
    async def test_another_path_is_refused(self, web: Web, device: Device, path: str) -> None:
        with pytest.raises(InvalidStatus) as refusal:
            await connect(web.socket_url.removesuffix("/ws") + path, additional_headers=device.headers)
        assert refusal.value.response.status_code == httpx.codes.FORBIDDEN
        assert web.failures == []


def nonsense(chance: random.Random, count: int) -> Iterator[str]:
    """Malformed frames of every kind."""
    good = {"type": "send_message", "client_message_id": "id", "chat_id": "chat_1", "content": "hello"}
    values: list[Any] = [None, True, 1, -1, 1.5, 2**63, 2**64, -(2**70), "", "\x00", [], {}, [[]], {"type": {}}]
    for number in range(count):
        match number % 8:
            case 0:
                yield "".join(chr(chance.randrange(1, 0xD800)) for _ in range(chance.randrange(200)))
            case 1:
                text = json.dumps(good)
                yield text[: chance.randrange(len(text))]
            case 2:
                yield "[" * chance.choice([10, 1000, 5000, 15_000]) + chance.choice(["", "]" * 1000])
            case 3:
                yield '{"type":' * 1500 + "1" + "}" * 1500
            case 4:
                name = chance.choice(["type", *good])
                yield json.dumps({**good, "type": chance.choice([good["type"], "ack"]), name: chance.choice(values)})
            case 5:
                digits = "9" * chance.choice([20, 400, 10_000])
                yield f'{{"type":"ack","chat_id":"chat_1","sequence":{chance.choice(["", "-"])}{digits}}}'
            case 6:
                escape = chance.choice(["\\ud800", "\\udfff", "\\udc00\\ud800"])
                yield f'{{"type":"send_message","client_message_id":"a","chat_id":"{escape}","content":"{escape}"}}'
            case 7:
                yield chance.choice(["NaN", '{"type":"ack","chat_id":"c","sequence":1e999}', "{}", '""', "0", "null"])


class TestBadFrames:
    async def test_fuzz_neither_ends_the_process_nor_shows_in_its_log(self, web: Web, device: Device) -> None:
        chance = random.Random(7)
        async with opened(web, device) as socket:
            for frame in nonsense(chance, 800):
                await socket.connection.send(frame)
                answer = await socket.receive("error")
                assert set(answer) <= {"type", "code", "detail", "retryable", "client_message_id", "chat_id"}
                assert not answer["retryable"]
                await socket.catch_up_with_server()
        assert web.process.status is None
        assert web.failures == []

    async def test_bytes_that_are_no_websocket_frames_end_only_their_connection(self, web: Web, device: Device) -> None:
        chance = random.Random(8)
        async with opened(web, device) as witness:
            for _ in range(40):
                async with opened(web, device) as victim:
                    victim.connection.transport.write(chance.randbytes(chance.randrange(1, 400)))
                    # More bytes, in case the first look like the header of a long frame.
                    victim.connection.transport.write(bytes(20_000))
                    with suppress(OSError):
                        victim.connection.transport.write_eof()
                    await victim.closed_with()
            await witness.catch_up_with_server()
        assert web.failures == []

    async def test_text_that_is_not_utf8_is_closed_with_1007(self, web: Web, device: Device) -> None:
        async with opened(web, device) as socket:
            await socket.connection.send(b"\xff\xfe", text=True)
            assert await socket.closed_with() == 1007

    async def test_a_binary_frame_is_closed_with_1003(self, web: Web, device: Device) -> None:
        async with opened(web, device) as socket:
            await socket.connection.send(b'{"type":"heartbeat"}')
            assert await socket.closed_with() == 1003

    async def test_a_frame_of_17_kib_is_closed_with_1009(self, web: Web, device: Device) -> None:
        async with opened(web, device) as socket:
            await socket.connection.send(json.dumps({"type": "heartbeat", "padding": "x" * 17 * 1024}))
            assert await socket.closed_with() == 1009

    async def test_a_message_of_17_kib_in_small_fragments_is_closed_with_1009(self, web: Web, device: Device) -> None:
        async with opened(web, device) as socket:
            with suppress(ConnectionClosed):
                await socket.connection.send(["x" * 1024] * 17)
            assert await socket.closed_with() == 1009

    async def test_a_frame_of_16_kib_is_read(self, web: Web, device: Device) -> None:
        async with opened(web, device) as socket:
            await socket.connection.send('{"type": "heartbeat"}'.ljust(16 * 1024))
            assert "server_time" in await socket.receive("heartbeat_ack")

    async def test_twenty_in_a_row_are_closed_with_4400(self, web: Web, device: Device) -> None:
        async with opened(web, device) as socket:
            for _ in range(BAD_FRAMES_IN_A_ROW):
                await socket.connection.send("{")
            assert await socket.closed_with() == 4400
        # The twentieth closes the connection; the others are answered, unless the close overtakes them.
        assert {frame["code"] for frame in socket.frames[1:]} <= {"invalid_request"}

    async def test_a_good_one_in_between_is_forgiven(self, web: Web, device: Device) -> None:
        async with opened(web, device) as socket:
            for _ in range(3):
                for _ in range(BAD_FRAMES_IN_A_ROW - 1):
                    await socket.connection.send("{")
                    assert (await socket.receive("error"))["code"] == "invalid_request"
                await socket.catch_up_with_server()

    async def test_a_ping_is_answered(self, web: Web, device: Device) -> None:
        async with opened(web, device) as socket:
            assert await (await socket.connection.ping()) >= 0


class TestOrder:
    @pytest.mark.parametrize("is_frozen", [False, True])
    async def test_frames_written_without_waiting_get_ascending_sequences_in_the_order_sent(
        self, system: System, web: Web, device: Device, is_frozen: bool
    ) -> None:
        """A gateway that was frozen meanwhile reads many frames at once, and must queue some of them."""
        chat, names = system.group(device, []), [f"{number}" for number in range(500)]
        async with opened(web, device) as socket:
            if is_frozen:
                web.freeze()
            for name in names:
                await socket.write("send_message", client_message_id=name, chat_id=chat, content=f"content {name}")
            web.thaw()
            acks = [await socket.receive("ack") for _ in names]
        assert {ack["client_message_id"]: ack["sequence"] for ack in acks} == {
            name: sequence for sequence, name in enumerate(names, start=1)
        }
        assert [message.client_message_id for message in system.stored(chat)] == names


class TestSessions:
    async def test_a_revoked_session_is_closed_with_4403_on_every_gateway_and_others_stay(
        self, system: System, device: Device
    ) -> None:
        other = system.another_device(device)
        async with (
            opened(system.webs[0], device) as here,
            opened(system.webs[1], device) as there,
            opened(system.webs[1], other) as stays,
        ):
            await eventually(lambda: listeners(system) >= 2)
            system.rest(other, "DELETE", f"/api/sessions/{device.session_id}")
            assert await together(here.closed_with(), there.closed_with()) == [4403, 4403]
            await stays.catch_up_with_server()

    async def test_logging_out_ends_the_own_connection_and_the_client_stays_away(
        self, system: System, device: Device
    ) -> None:
        other = system.user()
        async with opened(system.webs[0], other), Client(system.webs[1].socket_url, token=device.token) as client:
            await client.connected.wait()
            await eventually(lambda: listeners(system) >= 2)
            system.rest(device, "POST", "/api/auth/logout")
            await eventually(lambda: client.closed_with == 4403)
            assert client.connections == 1


class TestTokens:
    async def test_a_connection_does_not_outlive_its_token_and_the_grace(
        self, system: System, web: Web, device: Device
    ) -> None:
        async with opened(web, device, token=system.token(device, lasting=timedelta(seconds=5))) as socket:
            assert await socket.closed_with() == 4401

    async def test_a_fresh_one_lets_it_go_on(self, system: System, web: Web, device: Device) -> None:
        brief = system.token(device, lasting=timedelta(seconds=5))
        async with opened(web, device, token=brief) as ends, opened(web, device, token=brief) as goes_on:
            await goes_on.write("authenticate", access_token=system.token(device, lasting=MINUTE))
            assert await ends.closed_with() == 4401
            await goes_on.catch_up_with_server()

    @pytest.mark.parametrize("same_user", [True, False])
    async def test_another_sessions_is_refused(self, system: System, web: Web, device: Device, same_user: bool) -> None:
        other = system.another_device(device) if same_user else system.user()
        async with opened(web, device) as socket:
            await socket.write("authenticate", access_token=other.token)
            assert await socket.closed_with() == 4401

    async def test_a_revoked_sessions_is_refused(self, system: System, web: Web, device: Device) -> None:
        revoked = system.another_device(device)
        system.rest(revoked, "POST", "/api/auth/logout")
        async with opened(web, device) as socket:
            await socket.write("authenticate", access_token=revoked.token)
            assert await socket.closed_with() == 4403


class TestAcknowledgements:
    async def test_beyond_the_latest_message_they_are_refused(self, system: System, web: Web, device: Device) -> None:
        chat = system.group(device, [])
        async with opened(web, device) as socket:
            await socket.send(chat, "only one")
            await socket.write("ack", chat_id=chat, sequence=2)
            refusal = await socket.receive("error")
            await socket.write("ack", chat_id=chat, sequence=1)
            await eventually(lambda: system.watermark(device.user_id, chat) == 1)
        assert (refusal["code"], refusal["chat_id"], refusal["retryable"]) == ("sequence_out_of_range", chat, False)

    async def test_the_watermark_never_moves_back(self, system: System, web: Web, device: Device) -> None:
        chat = system.group(device, [])
        other = system.another_device(device)
        async with opened(web, device) as ahead, opened(system.webs[1], other) as behind:
            for number in range(1, 4):
                await ahead.send(chat, f"{number}")
            await ahead.write("ack", chat_id=chat, sequence=3)
            await eventually(lambda: system.watermark(device.user_id, chat) == 3)
            await behind.write("ack", chat_id=chat, sequence=1)
            await behind.catch_up_with_server()
        # Acknowledgements are written at once after a pause, and at the latest when their connection ends.
        delivery = system.rest(device, "GET", "/api/delivery")["items"]
        assert [(item["chat_id"], item["last_acked_sequence"]) for item in delivery] == [(chat, 3)]

    async def test_of_a_foreign_chat_they_are_refused(self, system: System, web: Web, device: Device) -> None:
        chat = system.group(system.user(), [])
        async with opened(web, device) as socket:
            await socket.write("ack", chat_id=chat, sequence=1)
            assert (await socket.receive("error"))["code"] == "chat_not_found"

    async def test_the_last_ones_are_written_when_the_connection_ends(
        self, system: System, web: Web, device: Device
    ) -> None:
        chat = system.group(device, [])
        async with opened(web, device) as socket:
            for number in range(1, 21):
                await socket.send(chat, f"{number}")
                await socket.write("ack", chat_id=chat, sequence=number)
        await eventually(lambda: system.watermark(device.user_id, chat) == 20)


class TestLimits:
    async def test_a_burst_beyond_the_allowance_is_refused_and_not_stored(self, system: System) -> None:
        web = system.start_web(SEND_RATE="0.5", SEND_BURST="5")
        device = system.user()
        chat = system.group(device, [])
        async with opened(web, device) as socket:
            for number in range(20):
                await socket.write("send_message", client_message_id=f"{number}", chat_id=chat, content=f"{number}")
            await socket.receive_until(lambda: len(socket.frames) == 21)
            answers = socket.frames[1:]
            accepted = [answer for answer in answers if answer["type"] == "ack"]
            refused = [answer for answer in answers if answer["type"] == "error"]
            assert {(answer["code"], answer["retryable"]) for answer in refused} == {("rate_limited", True)}
            assert [answer["sequence"] for answer in accepted] == list(range(1, len(accepted) + 1))
            assert 5 <= len(accepted) <= 8
            assert [message.client_message_id for message in system.stored(chat)] == [
                answer["client_message_id"] for answer in accepted
            ]
        web.terminate()
        assert web.wait() == 0

    async def test_a_client_that_keeps_ignoring_it_is_closed_with_4429(self, system: System) -> None:
        web = system.start_web(SEND_RATE="1", SEND_BURST="1")
        device = system.user()
        chat = system.group(device, [])
        send = json.dumps({"type": "send_message", "client_message_id": "same", "chat_id": chat, "content": "again"})
        async with opened(web, device) as socket:

            async def flood() -> None:
                with suppress(ConnectionClosed):
                    while True:
                        await socket.connection.send(send)
                        await asyncio.sleep(0)

            flooding = asyncio.ensure_future(flood())
            assert await socket.closed_with() == 4429
            await flooding
        refusals = [frame for frame in socket.frames if frame["type"] == "error"]
        assert {(frame["code"], frame["retryable"]) for frame in refusals} == {("rate_limited", True)}
        web.terminate()
        assert web.wait() == 0

    async def test_a_client_over_the_frame_pace_gets_all_its_answers_later(self, web: Web, device: Device) -> None:
        count = 2_500
        async with opened(web, device) as socket:
            for _ in range(count):
                await socket.write("heartbeat")
            await socket.receive_until(lambda: len(socket.frames) == count + 1)
        assert {frame["type"] for frame in socket.frames[1:]} == {"heartbeat_ack"}


class TestAClientThatIsGone:
    async def test_its_connection_ends_and_its_last_frame_is_handled(
        self, system: System, web: Web, device: Device
    ) -> None:
        """Its last frame and its reset arrive together, as on a busy machine."""
        chat = system.direct_chat(device, system.user())
        before = web.metric(CONNECTIONS)
        async with opened(web, device) as socket:
            assert web.metric(CONNECTIONS) == before + 1
            web.freeze()
            await socket.write("send_message", client_message_id="last", chat_id=chat, content="last message")
            await reset(socket)
            web.thaw()
            await eventually(lambda: web.metric(CONNECTIONS) == before)
        assert [message.content for message in system.stored(chat)] == ["last message"]
        assert web.failures == []


class TestAClientThatDoesNotRead:
    async def test_it_is_closed_with_4409_and_catches_up_by_sync(self, system: System, web: Web) -> None:
        writer, sleeper = system.users(2)
        chat = system.direct_chat(writer, sleeper)
        closes = 'parley_gateway_closes_total{reason="too_slow"}'
        before, sent = web.metric(closes), 0
        async with Client(web.socket_url, token=writer.token) as writing, opened(web, sleeper, max_queue=1) as asleep:
            asleep.connection.transport.pause_reading()
            # The kernel's buffers take a few megabytes before the gateway's own queue begins to fill.
            while web.metric(closes) == before:
                assert sent * 4000 < 10 * MAX_BYTES
                await together(*(writing.send(chat, "x" * 4000) for _ in range(50)))
                sent += 50
            asleep.connection.transport.resume_reading()
            assert await asleep.closed_with() == 4409
            async with opened(web, sleeper) as awake:
                page = await awake.sync(chat, sent - 100)
        assert [message["sequence"] for message in page["messages"]] == list(range(sent - 99, sent + 1))
        assert len(asleep.messages) < sent


class TestProbes:
    async def test_the_probes_are_never_refused_for_load(self, system: System) -> None:
        web = system.start_web(HTTP_REQUESTS="0")
        async with httpx.AsyncClient(base_url=web.url) as http:
            assert [(await http.get(path)).status_code for path in ("/healthz", "/readyz")] == [200, 200]
            assert (await http.get("/api/users/me")).status_code == 503
        web.terminate()
