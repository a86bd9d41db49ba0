"""Receipts, typing and presence between two gateways."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from foundation.kernel.ids import ChatId
from tests.e2e.sockets import Frame, Socket, eventually, opened, together
from tests.e2e.system import Device, System, Web

PUBLISHED = 'parley_live_frames_total{outcome="published"}'


def newest(socket: Socket, chat_id: ChatId) -> dict[str, dict[str, int]]:
    """The marks that a client knows after all its `receipts` frames."""
    known: dict[str, dict[str, int]] = {}
    for frame in socket.frames:
        if frame["type"] == "receipts" and frame["chat_id"] == chat_id:
            for mark in frame["marks"]:
                known.setdefault(mark["user_id"], {}).update(
                    {name: value for name, value in mark.items() if name != "user_id"}
                )
    return known


async def receive_mark(socket: Socket, chat_id: ChatId, device: Device, **expected: int) -> None:
    await socket.receive_until(lambda: expected.items() <= newest(socket, chat_id).get(device.user_id, {}).items())


def frames(socket: Socket, type_: str) -> list[Frame]:
    return [frame for frame in socket.frames if frame["type"] == type_]


def hide(system: System, device: Device, **settings: bool) -> None:
    system.rest(device, "PATCH", "/api/users/me", **settings)


@contextmanager
def started(system: System) -> Iterator[Web]:
    """One more gateway, gone when the block ends: others expect two."""
    web = system.start_web()
    try:
        yield web
    finally:
        system.webs.remove(web)
        web.terminate()
        web.wait()


def read_by_rest(web: Web, device: Device, chat_id: ChatId, sequence: int) -> None:
    path = f"{web.url}/api/chats/{chat_id}/read"
    httpx.post(path, headers=device.headers, json={"sequence": sequence}, timeout=20.0).raise_for_status()


class TestReceipts:
    async def test_marks_reach_the_sender_at_another_gateway_and_the_own_other_device(self, system: System) -> None:
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        one, two = system.webs
        async with opened(one, ada) as ada_socket, opened(two, bob) as phone, opened(one, bob) as laptop:
            await ada_socket.send(chat, "hi")
            await phone.receive("message")
            await phone.write("ack", chat_id=chat, sequence=1)
            await receive_mark(ada_socket, chat, bob, last_acked_sequence=1)
            assert "last_read_sequence" not in newest(ada_socket, chat)[bob.user_id]
            await phone.write("read", chat_id=chat, sequence=1)
            for socket in (ada_socket, laptop):
                await receive_mark(socket, chat, bob, last_acked_sequence=1, last_read_sequence=1)
        (entry,) = system.rest(bob, "GET", "/api/chats")["items"]
        assert (entry["last_read_sequence"], entry["unread_count"]) == (1, 0)

    async def test_a_read_by_rest_is_told_as_well(self, system: System) -> None:
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        async with opened(system.webs[1], ada) as socket:
            await socket.send(chat, "hi")
            answer = system.rest(bob, "POST", f"/api/chats/{chat}/read", sequence=1)
            assert answer == {"last_acked_sequence": 1, "last_read_sequence": 1}
            await receive_mark(socket, chat, bob, last_acked_sequence=1, last_read_sequence=1)

    async def test_who_hides_read_marks_neither_shows_nor_sees_them_but_the_own_devices_do(
        self, system: System
    ) -> None:
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        one, two = system.webs
        async with opened(one, ada) as ada_socket, opened(two, bob) as phone, opened(one, bob) as laptop:
            await ada_socket.send(chat, "hi")
            hide(system, bob, read_receipts=False)
            await phone.write("read", chat_id=chat, sequence=1)
            await ada_socket.write("read", chat_id=chat, sequence=1)
            await receive_mark(laptop, chat, bob, last_read_sequence=1)
            await receive_mark(ada_socket, chat, bob, last_acked_sequence=1)
            await receive_mark(phone, chat, ada, last_acked_sequence=1)
            assert "last_read_sequence" not in newest(ada_socket, chat)[bob.user_id]
            assert "last_read_sequence" not in newest(phone, chat)[ada.user_id]
        shown = {item["user_id"]: item for item in system.rest(ada, "GET", f"/api/chats/{chat}/receipts")["items"]}
        assert shown == {
            ada.user_id: {"user_id": ada.user_id, "last_acked_sequence": 1, "last_read_sequence": 1},
            bob.user_id: {"user_id": bob.user_id, "last_acked_sequence": 1},
        }
        hide(system, bob, read_receipts=True)
        shown = {item["user_id"]: item for item in system.rest(ada, "GET", f"/api/chats/{chat}/receipts")["items"]}
        assert shown[bob.user_id]["last_read_sequence"] == 1

    async def test_nobody_learns_when_who_hides_read_marks_has_read(self, system: System) -> None:
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        one, two = system.webs
        hide(system, bob, read_receipts=False)
        async with opened(one, ada) as ada_socket, opened(two, bob) as phone, opened(one, bob) as laptop:
            await ada_socket.send(chat, "hi")
            await phone.write("ack", chat_id=chat, sequence=1)
            await receive_mark(ada_socket, chat, bob, last_acked_sequence=1)
            await phone.write("read", chat_id=chat, sequence=1)
            await receive_mark(laptop, chat, bob, last_read_sequence=1)
            await ada_socket.catch_up_with_server()
            assert len(frames(ada_socket, "receipts")) == 1

    async def test_a_process_without_sockets_hides_what_was_hidden_at_another(self, system: System) -> None:
        """It listens to notices from its start, and drops the settings that it has read."""
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        with started(system) as quiet:
            async with opened(system.webs[0], ada) as socket:
                for sequence in (1, 2):
                    await socket.send(chat, "hi")
                    read_by_rest(quiet, bob, chat, sequence)
                    await receive_mark(socket, chat, bob, last_acked_sequence=sequence)
                    hide(system, bob, read_receipts=False)
                assert newest(socket, chat)[bob.user_id] == {"last_acked_sequence": 2, "last_read_sequence": 1}
            assert quiet.metric("parley_gateway_connections") == 0

    async def test_the_receipts_of_a_busy_group_of_a_hundred_are_few(self, system: System) -> None:
        """A hundred members read fifty messages: a frame a second and gateway, not a frame for each mark."""
        owner, *others = system.users(100)
        chat = system.group(owner, others)
        readers = others[:20]
        before = sum(web.metric(PUBLISHED) for web in system.webs)
        async with opened(system.webs[0], owner) as socket, _all_opened(system, readers) as sockets:
            for sequence in range(1, 51):
                await socket.send(chat, "x")
                await together(*(each.write("read", chat_id=chat, sequence=sequence) for each in sockets))
            for reader in readers:
                await receive_mark(socket, chat, reader, last_read_sequence=50)
        received = frames(socket, "receipts")
        published = sum(web.metric(PUBLISHED) for web in system.webs) - before
        # 1,000 read frames were sent.
        assert len(received) <= published <= 50

    async def test_a_group_of_a_thousand_gets_no_receipts_but_can_read_them(self, system: System) -> None:
        owner, *others = system.users(1000)
        chat = system.group(owner, others)
        reader = others[0]
        async with opened(system.webs[0], owner) as socket, opened(system.webs[1], reader) as reading:
            await socket.send(chat, "hi")
            await reading.receive("message")
            await reading.write("read", chat_id=chat, sequence=1)
            small = system.direct_chat(owner, reader)
            await socket.send(small, "hi")
            await eventually(lambda: system.watermark(reader.user_id, chat) == 1)
            await reading.write("read", chat_id=small, sequence=1)
            await receive_mark(socket, small, reader, last_read_sequence=1)
        assert newest(socket, chat) == {}
        items, path = list[dict[str, Any]](), f"/api/chats/{chat}/receipts?limit=200"
        page = system.rest(owner, "GET", path)
        while page["next_cursor"] is not None:
            items += page["items"]
            page = system.rest(owner, "GET", f"{path}&cursor={page['next_cursor']}")
        items += page["items"]
        assert len(items) == 1000
        assert {item["user_id"]: item.get("last_read_sequence") for item in items}[reader.user_id] == 1


class _all_opened:  # noqa: N801 - reads as a verb
    """Sockets of many devices, half of them at each gateway."""

    def __init__(self, system: System, devices: list[Device]) -> None:
        self._opening = [opened(system.webs[number % 2], device) for number, device in enumerate(devices)]

    async def __aenter__(self) -> list[Socket]:
        return await together(*(each.__aenter__() for each in self._opening))

    async def __aexit__(self, *details: Any) -> None:
        await together(*(each.__aexit__(*details) for each in self._opening))


class TestTyping:
    async def test_others_see_who_is_typing_until_it_ends_and_the_typist_does_not(self, system: System) -> None:
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        one, two = system.webs
        async with opened(one, ada) as ada_socket, opened(two, bob) as bob_socket, opened(two, ada) as other:
            await ada_socket.write("typing", chat_id=chat, active=True)
            started = await bob_socket.receive("typing")
            assert started == {"type": "typing", "chat_id": chat, "user_id": ada.user_id, "active": True}
            await ada_socket.write("typing", chat_id=chat, active=False)
            assert (await bob_socket.receive("typing"))["active"] is False
            for socket in (ada_socket, other):
                await socket.catch_up_with_server()
                assert frames(socket, "typing") == []

    async def test_a_lost_connection_types_no_more(self, system: System) -> None:
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        async with opened(system.webs[1], bob) as bob_socket:
            async with opened(system.webs[0], ada) as ada_socket:
                await ada_socket.write("typing", chat_id=chat, active=True)
                assert (await bob_socket.receive("typing"))["active"] is True
            assert (await bob_socket.receive("typing"))["active"] is False

    async def test_a_stranger_is_refused(self, system: System) -> None:
        ada, bob, eve = system.users(3)
        chat = system.direct_chat(ada, bob)
        async with opened(system.webs[0], eve) as socket:
            for frame in ({"type": "typing", "active": True}, {"type": "watch_presence", "user_ids": [ada.user_id]}):
                await socket.write(str(frame.pop("type")), chat_id=chat, **frame)
                error = await socket.receive("error")
                assert (error["code"], error["chat_id"]) == ("chat_not_found", chat)


class TestPresence:
    async def test_a_watcher_sees_the_status_at_once_and_its_changes(self, system: System) -> None:
        ada, bob, eve = system.users(3)
        chat = system.direct_chat(ada, bob)
        one, two = system.webs
        async with opened(one, ada) as watching:
            await watching.write("watch_presence", chat_id=chat, user_ids=[bob.user_id, eve.user_id])
            assert await watching.receive("presence") == {
                "type": "presence",
                "user_id": bob.user_id,
                "status": "offline",
            }
            async with opened(two, bob):
                assert (await watching.receive("presence"))["status"] == "online"
                asked = f"/api/presence?chat_id={chat}&user_id={bob.user_id}&user_id={eve.user_id}"
                assert system.rest(ada, "GET", asked)["items"] == [{"user_id": bob.user_id, "status": "online"}]
            gone = await watching.receive("presence")
            assert (gone["user_id"], gone["status"]) == (bob.user_id, "offline")
            assert gone["last_seen"].endswith("Z")
        assert {frame["user_id"] for frame in frames(watching, "presence")} == {bob.user_id}

    async def test_who_hides_is_offline_to_others_and_sees_everybody_offline(self, system: System) -> None:
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        async with opened(system.webs[0], ada), opened(system.webs[1], bob):
            hide(system, bob, show_presence=False)
            for viewer, other in ((ada, bob), (bob, ada)):
                asked = f"/api/presence?chat_id={chat}&user_id={other.user_id}"
                assert system.rest(viewer, "GET", asked)["items"] == [{"user_id": other.user_id, "status": "offline"}]
            hide(system, bob, show_presence=True)
            asked = f"/api/presence?chat_id={chat}&user_id={bob.user_id}"
            assert system.rest(ada, "GET", asked)["items"][0]["status"] == "online"

    async def test_what_a_watcher_was_shown_follows_the_switches_of_both(self, system: System) -> None:
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        async with opened(system.webs[0], ada) as watching, opened(system.webs[1], bob):

            async def is_shown(status: str) -> None:
                shown = {"type": "presence", "user_id": bob.user_id, "status": status}
                await watching.receive_until(lambda: frames(watching, "presence")[-1:] == [shown])

            await watching.write("watch_presence", chat_id=chat, user_ids=[bob.user_id])
            await is_shown("online")
            for device in (bob, ada):
                hide(system, device, show_presence=False)
                await is_shown("offline")
                hide(system, device, show_presence=True)
                await is_shown("online")
