"""The reference client: delivers each chat's messages in order, without gaps and without duplicates.

It keeps `next` per chat. A message with `sequence == next` is delivered, a lower one is a duplicate, a higher one
triggers a `sync_request` from `next - 1` and is buffered until the gap is filled. It reconnects with backoff and
jitter, resends unacknowledged messages under the same `client_message_id`, and acknowledges what it delivered.
`open` keeps a chat's log: its messages as edits, deletions and reactions leave them, its pins and notices.

    async with Client("ws://127.0.0.1:8000/ws", token=access_token) as client:
        client.follow(chat_id)
        sent = await client.send(chat_id, "hello")
        async for message in client.messages():
            print(message["sequence"], message["content"])

Needs only the `websockets` package.
"""

from parley_client.client import Client
from parley_client.connection import Ended
from parley_client.log import ChatLog
from parley_client.marks import Mark, Marks
from parley_client.outbox import SendFailed
from parley_client.rest import RequestFailed
from parley_client.timeline import Timeline

__all__ = ["ChatLog", "Client", "Ended", "Mark", "Marks", "RequestFailed", "SendFailed", "Timeline"]
