"""A thousand clients that come back at once, as after the restart of a network."""

from contextlib import AsyncExitStack
from itertools import cycle

from parley_client import Client

from tests.e2e.sockets import all_connected, eventually, is_dense, together
from tests.e2e.system import System

USERS, DEVICES = 10, 100
MESSAGES = 20


async def test_all_of_them_get_back_in_and_show_the_same(fragile: System) -> None:
    users = fragile.users(USERS)
    chat = fragile.group(users[0], users[1:])
    devices = [fragile.another_device(user) for user in users for _ in range(DEVICES)]
    places = cycle(web.socket_url for web in fragile.webs)
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(Client(next(places), token=device.token, acknowledge=False))
            for device in devices
        ]
        await all_connected(clients)
        for client in clients:
            client.follow(chat)
            client.reconnect()
        writing = clients[0]
        await together(*(writing.send(chat, f"{number}") for number in range(MESSAGES)))
        await eventually(lambda: all(client.connections >= 2 for client in clients), within=60)
        shown = await together(*(client.read(MESSAGES, within=60) for client in clients))
    assert is_dense(shown[0])
    expected = [message.message_id for message in fragile.stored(chat)]
    assert len(expected) == MESSAGES
    assert all([message["message_id"] for message in messages] == expected for messages in shown)
