"""One message can be followed through all processes by its id in their logs, or by the trace of its sender."""

import asyncio
import json
from pathlib import Path

import httpx

from tests.e2e.sockets import RECEIVE_TIMEOUT, eventually, opened
from tests.e2e.system import Service, System

DEBUG = {"LOG_LEVEL": "DEBUG", "LOG_FORMAT": "json"}
TRACE_OF_THE_SOCKET = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACE_OF_THE_REQUEST = "0af7651916cd43dd8448eb211c80319c"


def lines_with(service: Service, name: str, value: str) -> list[str]:
    """The first words of the lines that have this id."""
    lines = [json.loads(line) for line in service.lines if line.startswith("{") and value in line]
    return [str(line["message"]).split()[0] for line in lines if line.get(name) == value]


def traceparent(trace_id: str) -> dict[str, str]:
    return {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"}


async def followed(system: System, name: str, value: str) -> None:
    """Return when every stage has logged a line with this id. The second process has the receiver."""
    fanout, webs = system.fanouts[0], system.webs
    await eventually(lambda: "published" in lines_with(fanout, name, value))
    await eventually(lambda: "delivered" in lines_with(webs[1], name, value))
    # The home of the chat, which may be either process, stores it.
    await eventually(lambda: any("stored" in lines_with(web, name, value) for web in webs))


async def test_stored_published_and_delivered_are_logged_with_the_messages_id_and_the_senders_trace(
    tmp_path: Path,
) -> None:
    with System(tmp_path, webs=2, fanouts=1, settings=DEBUG) as system:
        ada, ben = system.users(2)
        chat_id = system.direct_chat(ada, ben)
        here, there = system.webs
        async with (
            opened(here, ada, headers=traceparent(TRACE_OF_THE_SOCKET)) as sending,
            opened(there, ben) as receiving,
        ):
            sent = await sending.send(chat_id, "follow me")
            await receiving.receive("message")
            await followed(system, "message_id", sent["message_id"])
            await followed(system, "trace_id", TRACE_OF_THE_SOCKET)
            assert "connected" in lines_with(here, "trace_id", TRACE_OF_THE_SOCKET)

            # Each group's home is one process or the other: soon a message is handed over, and its trace with it.
            async with asyncio.timeout(RECEIVE_TIMEOUT):
                while "stored" not in lines_with(there, "trace_id", TRACE_OF_THE_SOCKET):
                    await sending.send(system.group(ada, [ben]), "follow me too")

            async with httpx.AsyncClient(
                base_url=here.url, headers={**ada.headers, **traceparent(TRACE_OF_THE_REQUEST)}
            ) as http:
                body = {"client_message_id": "by-rest", "content": "and me"}
                answer = await http.post(f"/api/chats/{chat_id}/messages", json=body)
                assert answer.status_code == httpx.codes.CREATED
            await followed(system, "trace_id", TRACE_OF_THE_REQUEST)
            await receiving.receive_until(lambda: receiving.messages[-1]["content"] == "and me")
            assert "traceparent" not in str(receiving.frames)
