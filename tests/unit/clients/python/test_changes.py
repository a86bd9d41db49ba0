"""An open chat: own changes, pages that arrive late, marks."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from parley_client import ChatLog, Mark, RequestFailed, SendFailed
from websockets.asyncio.server import ServerConnection

from tests.unit.clients.python.scripted import answer, client, read, server, write

PAGE = "/api/chats/chat/messages"
PINS = "/api/chats/chat/pins"


def message(sequence: int, **fields: Any) -> dict[str, Any]:
    about = {"chat_id": "chat", "sequence": sequence, "sender_id": "ben", "created_at": "then"}
    return {**about, "kind": "message", "content": f"text {sequence}", **fields}


def pages(*messages: dict[str, Any]) -> dict[str, Any]:
    return {PAGE: {"messages": list(messages), "has_more": True, "latest_sequence": 2}, PINS: {"items": []}}


class TestOwnChanges:
    async def test_each_is_sent_as_its_frame_and_applied_by_its_ack(self) -> None:
        async def handle(socket: ServerConnection) -> None:
            await read(socket, "sync_request")
            for number, kind in enumerate(("edit_message", "react", "pin", "delete_message"), start=3):
                await answer(socket, kind, sequence=number)
            await socket.wait_closed()

        async with server(handle, pages=pages(message(2, sender_id="ada"), message(1))) as url, client(url) as ada:
            log = await ada.open("chat")
            await ada.edit("chat", 2, "new", mentions=["ben"])
            assert log.timeline[1] == message(
                2, sender_id="ada", content="new", mentions=["ben"], edited_at="now", last_change=3
            )
            await ada.react("chat", 1, "👍")
            assert log.timeline[0]["reactions"] == [{"emoji": "👍", "count": 1, "user_ids": ["ada"]}]
            await ada.pin("chat", 1)
            assert log.pins == [1]
            await ada.delete("chat", 2)
            assert log.timeline[1]["deleted_at"] == "now"

    async def test_a_change_that_changes_nothing_makes_no_entry(self) -> None:
        async def handle(socket: ServerConnection) -> None:
            await answer(socket, "react", sequence=None, duplicate=True)
            await answer(socket, "send_message", sequence=3)
            await socket.wait_closed()

        async with server(handle, pages=pages(message(2), message(1))) as url, client(url) as ada:
            await ada.open("chat")
            assert (await ada.react("chat", 1, "👍"))["sequence"] is None
            await ada.send("chat", "next", reply_to=1)
            assert [one["reply_to"] for one in await ada.read(1)] == [1]

    async def test_a_refusal_raises_its_code(self) -> None:
        async def handle(socket: ServerConnection) -> None:
            draft = await read(socket, "edit_message")
            about = {"client_message_id": draft["client_message_id"], "chat_id": "chat"}
            await write(socket, type="error", code="message_deleted", detail="", retryable=False, **about)
            await socket.wait_closed()

        async with server(handle) as url, client(url) as ada:
            with pytest.raises(SendFailed) as failed:
                await ada.edit("chat", 1, "too late")
        assert failed.value.code == "message_deleted"


class TestReading:
    async def test_an_own_change_that_is_acknowledged_while_a_page_is_on_its_way_is_applied_to_it(self) -> None:
        is_requested, may_answer = asyncio.Event(), asyncio.Event()
        older = {"messages": [message(1, content="old", sender_id="ada")], "has_more": False, "latest_sequence": 2}

        async def page() -> Any:
            if not is_requested.is_set():
                is_requested.set()
                return {"messages": [message(2)], "has_more": True, "latest_sequence": 2}
            await may_answer.wait()
            return older

        async def handle(socket: ServerConnection) -> None:
            await answer(socket, "edit_message", sequence=3)
            await socket.wait_closed()

        async with server(handle, pages={PAGE: page, PINS: {"items": []}}) as url, client(url) as ada:
            log = await ada.open("chat")
            loading = asyncio.create_task(ada.load_older("chat"))
            await ada.edit("chat", 1, "new")
            may_answer.set()
            assert await loading is False
            assert [one["content"] for one in log.timeline] == ["new", "text 2"]

    async def test_a_pushed_entry_is_kept_as_a_page_shows_it(self) -> None:
        async def handle(socket: ServerConnection) -> None:
            await read(socket, "sync_request")
            await write(socket, **message(3), type="message")
            await socket.wait_closed()

        async with server(handle, pages=pages(message(2), message(1))) as url, client(url) as ada:
            log = await ada.open("chat")
            await ada.read(1)
            assert log.timeline == [message(1), message(2), message(3)]

    async def test_a_chat_that_could_not_be_opened_is_read_by_the_next_call(self) -> None:
        is_requested, may_fail = asyncio.Event(), asyncio.Event()

        async def page() -> Any:
            if may_fail.is_set():
                return pages(message(2), message(1))[PAGE]
            is_requested.set()
            await may_fail.wait()
            raise OSError("no answer")

        async def handle(socket: ServerConnection) -> None:
            await is_requested.wait()
            await write(socket, **message(1), type="message")
            await socket.wait_closed()

        async with server(handle, pages={PAGE: page, PINS: {"items": []}}) as url, client(url) as ada:
            opening = asyncio.create_task(ada.open("chat"))
            await ada.read(1)
            may_fail.set()
            with pytest.raises(RequestFailed):
                await opening
            log = await ada.open("chat")
            assert log.timeline == [message(1), message(2)]

    async def test_of_two_calls_at_once_one_that_fails_leaves_the_other_its_entries(self) -> None:
        requests, is_open = asyncio.Queue[None](), asyncio.Event()

        async def page() -> Any:
            requests.put_nowait(None)
            if requests.qsize() == 1:
                raise OSError("no answer")
            return pages(message(2), message(1))[PAGE]

        async def handle(socket: ServerConnection) -> None:
            await is_open.wait()
            await write(socket, **message(3), type="message")
            await socket.wait_closed()

        async with server(handle, pages={PAGE: page, PINS: {"items": []}}) as url, client(url) as ada:
            failed, log = await asyncio.gather(ada.open("chat"), ada.open("chat"), return_exceptions=True)
            assert isinstance(failed, RequestFailed)
            assert isinstance(log, ChatLog)
            is_open.set()
            await ada.read(1)
            assert log.timeline == [message(1), message(2), message(3)]

    async def test_an_empty_chat_is_not_read_again(self) -> None:
        answers = [pages()[PAGE]]

        async def page() -> Any:
            return answers.pop()

        async def idle(socket: ServerConnection) -> None:
            await socket.wait_closed()

        async with server(idle, pages={PAGE: page, PINS: {"items": []}}) as url, client(url) as ada:
            assert await ada.open("chat") is await ada.open("chat")

    async def test_an_error_of_the_api_has_its_status(self) -> None:
        async def idle(socket: ServerConnection) -> None:
            await socket.wait_closed()

        async with server(idle) as url, client(url) as ada:
            with pytest.raises(RequestFailed) as failed:
                await ada.open("chat")
        assert failed.value.status == 426

    async def test_messages_are_told_from_other_entries(self) -> None:
        async def handle(socket: ServerConnection) -> None:
            edit = message(2, kind="edit", target=1, content="new")
            await write(socket, type="message_batch", chat_id="chat", messages=[message(1), edit, message(3)])
            await socket.wait_closed()

        async with server(handle) as url, client(url) as ada:
            assert [one["sequence"] for one in await ada.read(2)] == [1, 3]


class TestMarks:
    async def test_receipts_typing_and_presence_are_kept(self) -> None:
        async def handle(socket: ServerConnection) -> None:
            assert await read(socket, "watch_presence") == {
                "type": "watch_presence",
                "chat_id": "chat",
                "user_ids": ["ben"],
            }
            for acked, seen in ((9, 4), (7, 2)):
                mark = {"user_id": "ben", "last_acked_sequence": acked, "last_read_sequence": seen}
                await write(socket, type="receipts", chat_id="chat", marks=[mark])
            await write(socket, type="typing", chat_id="chat", user_id="ben", active=True)
            await write(socket, type="presence", user_id="ben", status="online")
            await write(socket, **message(1), type="message")
            await socket.wait_closed()

        async with server(handle) as url, client(url) as ada:
            await ada.connected.wait()
            await ada.watch_presence("chat", ["ben"])
            await ada.read(1)
            assert (ada.marks.receipts("chat")["ben"].delivered, ada.marks.receipts("chat")["ben"].read) == (9, 4)
            assert ada.marks.typing("chat") == ["ben"]
            assert ada.marks.presence["ben"]["status"] == "online"

    async def test_an_own_message_is_marked_as_read(self) -> None:
        async def handle(socket: ServerConnection) -> None:
            await answer(socket, "send_message", sequence=7)
            sent.set_result(await read(socket, "read"))
            await socket.wait_closed()

        sent: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        async with server(handle) as url, client(url) as ada:
            await ada.send("chat", "hi")
            assert await asyncio.wait_for(sent, 10) == {"type": "read", "chat_id": "chat", "sequence": 7}

    async def test_marks_are_coalesced_into_the_furthest(self) -> None:
        async def handle(socket: ServerConnection) -> None:
            sent.set_result(await read(socket, "read"))
            await socket.wait_closed()

        sent: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        async with server(handle) as url, client(url) as ada:
            ada.mark_read("chat", 4)
            ada.mark_read("chat", 3)
            assert await asyncio.wait_for(sent, 10) == {"type": "read", "chat_id": "chat", "sequence": 4}

    async def test_what_arrives_is_acknowledged_as_unread(self) -> None:
        async def handle(socket: ServerConnection) -> None:
            await write(socket, **message(1), type="message")
            sent.set_result(await read(socket, "ack"))
            await socket.wait_closed()

        sent: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        async with server(handle) as url, client(url) as ada:
            await ada.read(1)
            expected = {"type": "ack", "chat_id": "chat", "sequence": 1, "read": False}
            assert await asyncio.wait_for(sent, 10) == expected

    async def test_a_mark_that_a_connection_may_have_lost_is_repeated_by_the_next(self) -> None:
        """Unless the server has told that it has it."""

        async def lose(socket: ServerConnection) -> None:
            for _ in range(2):
                await read(socket, "read")
            stored = {"user_id": "ada", "last_acked_sequence": 9, "last_read_sequence": 9}
            await write(socket, type="receipts", chat_id="stored", marks=[stored])

        async def handle(socket: ServerConnection) -> None:
            repeated.append(await read(socket, "read"))
            marked.set()
            repeated.append(await read(socket, "read"))
            done.set()
            await socket.wait_closed()

        repeated, marked, done = list[dict[str, Any]](), asyncio.Event(), asyncio.Event()
        async with server(lose, handle) as url, client(url) as ada:
            ada.mark_read("stored", 9)
            ada.mark_read("lost", 4)
            await asyncio.wait_for(marked.wait(), 10)
            ada.mark_read("later", 1)
            await asyncio.wait_for(done.wait(), 10)
        assert [frame["chat_id"] for frame in repeated] == ["lost", "later"]

    async def test_at_a_server_of_an_earlier_version_reading_is_acknowledging(self) -> None:
        async def handle(socket: ServerConnection) -> None:
            await read(socket, "read")
            await write(socket, type="error", code="invalid_request", detail="", retryable=False)
            sent.set_result(await read(socket, "ack"))
            await socket.wait_closed()

        sent: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        async with server(handle) as url, client(url) as ada:
            ada.mark_read("chat", 4)
            assert await asyncio.wait_for(sent, 10) == {"type": "ack", "chat_id": "chat", "sequence": 4}

    async def test_receipts_are_read_again_after_a_resync_and_a_reconnect_and_what_is_hidden_disappears(self) -> None:
        def receipt(acked: int, seen: int | None) -> dict[str, Any]:
            return {"user_id": "ben", "last_acked_sequence": acked} | (
                {} if seen is None else {"last_read_sequence": seen}
            )

        async def lose(socket: ServerConnection) -> None:
            await loaded.wait()
            await write(socket, type="resync")
            await resynced.wait()

        async def handle(socket: ServerConnection) -> None:
            await socket.wait_closed()

        async def page() -> Any:
            return {"items": [answers[-1]], "next_cursor": None}

        answers = [receipt(3, 3)]
        loaded, resynced = asyncio.Event(), asyncio.Event()
        pages = {"/api/chats/chat/receipts": page}
        async with server(lose, handle, pages=pages) as url, client(url) as ada:
            await ada.load_receipts("chat")
            assert ada.marks.receipts("chat")["ben"] == Mark(3, 3)
            answers.append(receipt(4, 4))
            loaded.set()
            await until(lambda: ada.marks.receipts("chat")["ben"] == Mark(4, 4))
            answers.append(receipt(5, None))
            resynced.set()
            await until(lambda: ada.marks.receipts("chat")["ben"] == Mark(5, None))

    async def test_without_a_connection_nobody_is_known_to_type_or_to_be_online(self) -> None:
        async def lose(socket: ServerConnection) -> None:
            await write(socket, type="typing", chat_id="chat", user_id="ben", active=True)
            await write(socket, type="presence", user_id="ben", status="online")
            await write(socket, **message(1), type="message")
            await read(socket, "ack")

        async def handle(socket: ServerConnection) -> None:
            await socket.wait_closed()

        async with server(lose, handle) as url, client(url) as ada:
            await ada.read(1)
            await until(lambda: ada.connections == 2)
            assert (ada.marks.typing("chat"), ada.marks.presence) == ([], {})


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - not an event
            await asyncio.sleep(0.01)
