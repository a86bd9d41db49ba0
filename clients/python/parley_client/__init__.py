"""The reference client: what a well-behaved Parley client does, in a few hundred lines.

It keeps the one rule that makes chats dense on the screen: keep `next` per chat; a message with `sequence == next` is
shown, a lower one is a duplicate, a higher one starts a `sync_request` from `next - 1`, and later ones wait until the
gap is filled. It reconnects with jitter, sends what was not acknowledged again under the same `client_message_id`, and
acknowledges what it has shown.

    async with Client("ws://127.0.0.1:8000/ws", token=access_token) as client:
        client.follow(chat_id)
        sent = await client.send(chat_id, "hello")
        async for message in client.messages():
            print(message["sequence"], message["content"])

Needs only the `websockets` package.
"""

from parley_client.client import Client, Ended, SendFailed
from parley_client.timeline import Timeline

__all__ = ["Client", "Ended", "SendFailed", "Timeline"]
