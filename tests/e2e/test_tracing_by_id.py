"""One message can be followed through all processes by its id in their logs."""

import json
from pathlib import Path

from tests.e2e.sockets import eventually, opened
from tests.e2e.system import Service, System

DEBUG = {"LOG_LEVEL": "DEBUG", "LOG_FORMAT": "json"}


def lines_about(service: Service, message_id: str) -> list[str]:
    lines = [json.loads(line) for line in service.lines if line.startswith("{") and message_id in line]
    return [str(line["message"]).split()[0] for line in lines if line.get("message_id") == message_id]


async def test_stored_published_and_delivered_are_logged_with_the_messages_id(tmp_path: Path) -> None:
    with System(tmp_path, webs=2, fanouts=1, settings=DEBUG) as system:
        ada, ben = system.users(2)
        chat_id = system.direct_chat(ada, ben)
        async with opened(system.webs[0], ada) as sending, opened(system.webs[1], ben) as receiving:
            sent = await sending.send(chat_id, "follow me")
            await receiving.receive("message")
        message_id = sent["message_id"]
        webs, fanout = system.webs, system.fanouts[0]
        await eventually(lambda: "published" in lines_about(fanout, message_id))
        await eventually(lambda: "delivered" in lines_about(webs[1], message_id))
        # The home of the chat, which may be either process, stores it.
        await eventually(lambda: any("stored" in lines_about(web, message_id) for web in webs))
