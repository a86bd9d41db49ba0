"""The parts of a `fanout` process: reads DynamoDB, writes Redis only."""

from typing import Any

import chats.parts
import delivery.parts
import messaging.parts
from config.wiring.clients import Clients


def fanout() -> delivery.parts.Fanout:
    """A worker whose DynamoDB client refuses to write."""
    clients = Clients(read_only=True)
    posting = chats.parts.assemble_posting(clients.database)
    history = messaging.parts.assemble_history(clients.database, posting=posting)

    def read_between(chat_id: str, first: int, last: int) -> list[dict[str, Any]]:
        return clients.loop.run(history.payloads_between(chat_id, first, last))

    return delivery.parts.assemble_fanout(
        redis=clients.redis,
        kafka=clients.kafka_options,
        list_members=posting.list_member_ids,
        read_between=read_between,
    )
