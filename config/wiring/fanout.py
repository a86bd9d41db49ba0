"""The parts of a `fanout` process: reads DynamoDB, writes Redis only."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import chats.parts
import delivery.parts
import messaging.parts
from config.wiring.clients import Clients
from foundation.kernel.ids import UserId

CONCURRENT_READS = 32


def fanout() -> delivery.parts.Fanout:
    """A worker whose DynamoDB client refuses to write."""
    clients = Clients(read_only=True)
    posting = chats.parts.assemble_posting(clients.database)
    history = messaging.parts.assemble_history(clients.database, posting=posting)
    reading = asyncio.Semaphore(CONCURRENT_READS)

    async def list_members(chat_id: str) -> list[UserId]:
        async with reading:
            return await posting.list_member_ids(chat_id)

    def start_listing(chat_id: str) -> "Future[Sequence[UserId]]":
        return clients.loop.submit(list_members(chat_id))

    def read_between(chat_id: str, first: int, last: int) -> list[dict[str, Any]]:
        return clients.loop.run(history.payloads_between(chat_id, first, last))

    return delivery.parts.assemble_fanout(
        redis=clients.redis,
        kafka=clients.kafka_options,
        list_members=start_listing,
        read_between=read_between,
        engine_probes=clients.probes(),
    )
