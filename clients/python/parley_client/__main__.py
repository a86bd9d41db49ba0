"""Chat in a terminal: `TOKEN=… python -m parley_client ws://127.0.0.1:8000/ws CHAT_ID`.

Prints the chat's history, then new messages as they arrive. Each line you type is sent. Ctrl-D quits.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator

from parley_client import Client, Ended, SendFailed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m parley_client", description=__doc__)
    parser.add_argument("url", help="such as ws://127.0.0.1:8000/ws")
    parser.add_argument("chat_id", help="the chat to read and write")
    options = parser.parse_args()
    token = os.environ.get("TOKEN")
    if not token:
        parser.error("put your access token into the environment variable TOKEN")
    asyncio.run(chat(options.url, options.chat_id, token))


async def chat(url: str, chat_id: str, token: str) -> None:
    async with Client(url, token=token) as client:
        client.follow(chat_id)
        printing = asyncio.create_task(print_messages(client))
        async for line in read_lines():
            try:
                await client.send(chat_id, line)
            except (SendFailed, Ended) as error:
                write_line(f"not sent: {error}")
        printing.cancel()


async def print_messages(client: Client) -> None:
    async for message in client.messages():
        sender = "you" if message["sender_id"] == client.user_id else message["sender_id"]
        write_line(f"{message['sequence']:>4}  {sender}: {message['content']}")
        client.mark_read(message["chat_id"], message["sequence"])


async def read_lines() -> AsyncIterator[str]:
    """Yield the typed lines until end of file. Reads in a thread, so that the event loop keeps running."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        if text := line.strip():
            yield text


def write_line(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the command's output


if __name__ == "__main__":
    main()
