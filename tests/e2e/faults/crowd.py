"""Clients that go on sending whatever fails, and what must hold afterwards."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Self

from parley_client import Client

from messaging.domain import Kind, Message
from tests.e2e.earlier.client import Client as EarlierClient
from tests.e2e.sockets import all_connected, eventually, is_dense, together
from tests.e2e.system import System, Web

SEND_INTERVAL = 0.05
AnyClient = Client | EarlierClient


class Crowd:
    """Members of one group, each with a client that knows several gateways and sends one message after the other."""

    def __init__(
        self,
        system: System,
        *,
        size: int = 10,
        webs: Sequence[Web] | None = None,
        client_types: Sequence[type[AnyClient]] = (Client,),
    ) -> None:
        self._system = system
        self.webs = list(webs or system.webs)
        self.members = system.users(size)
        self.chat = system.group(self.members[0], self.members[1:])
        self.clients: list[AnyClient] = []
        self.acknowledged: list[dict[str, Any]] = []
        self._client_types = client_types
        self._stack = AsyncExitStack()
        self._sending: list[asyncio.Task[None]] = []
        self._is_quiet = False

    async def __aenter__(self) -> Self:
        for number, member in enumerate(self.members):
            client_type = self._client_types[number % len(self._client_types)]
            client = client_type(self._places(number), token=member.token, longest_pause=1.0)
            await self._stack.enter_async_context(client)
            self.clients.append(client)
        await all_connected(self.clients)
        for client in self.clients:
            client.follow(self.chat)
        self._sending = [
            asyncio.ensure_future(self._send_loop(number, client)) for number, client in enumerate(self.clients)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        await self._stack.aclose()

    async def goes_on(self, count: int = 30, *, within: float = 30.0) -> None:
        """Wait until so many more messages have been acknowledged."""
        goal = len(self.acknowledged) + count
        await eventually(lambda: len(self.acknowledged) >= goal, within=within)

    async def converges(self, *, within: float = 40.0) -> None:
        """Stop sending. Then every client gets the stored entries, dense; the messages are the acknowledged ones."""
        self._is_quiet = True
        await together(*self._sending, within=within)
        stored = self._system.stored(self.chat)
        shown = await together(*(_read(client, len(stored)) for client in self.clients), within=within)
        expected = [message.message_id for message in stored]
        assert is_dense(shown[0])
        for entries in shown:
            assert [entry["message_id"] for entry in entries] == expected, _difference(entries, stored)
        messages = {entry.sequence: entry.message_id for entry in stored if entry.kind is Kind.MESSAGE}
        assert {ack["sequence"]: ack["message_id"] for ack in self.acknowledged} == messages
        unchanged = [entry.content for entry in stored if entry.sequence in messages and entry.last_change is None]
        assert len(set(unchanged)) == len(unchanged)

    def _places(self, first: int) -> Callable[[], str]:
        """The gateways in turn, for each connection attempt the next one."""
        turns = itertools.count(first)
        return lambda: self.webs[next(turns) % len(self.webs)].socket_url

    async def _send_loop(self, number: int, client: AnyClient) -> None:
        for turn in itertools.count():
            if self._is_quiet:
                return
            self.acknowledged.append(await client.send(self.chat, f"{number}.{turn}"))
            await asyncio.sleep(SEND_INTERVAL)


async def _read(client: AnyClient, count: int) -> list[dict[str, Any]]:
    """The next entries of any kind. A client that knows only messages takes every entry for one."""
    entries = client.entries() if isinstance(client, Client) else client.messages()
    return [await anext(entries) for _ in range(count)]


def _difference(shown: Sequence[dict[str, Any]], stored: Sequence[Message]) -> str:
    """Where the shown messages differ from the stored ones."""
    on_screen = [(message["sequence"], message["message_id"]) for message in shown]
    in_store = [(message.sequence, message.message_id) for message in stored]
    return f"shown: {sorted(set(on_screen) - set(in_store))[:5]}; stored: {sorted(set(in_store) - set(on_screen))[:5]}"
