"""The parts of a `fanout` process: reads DynamoDB, writes Redis only."""

import chats.parts
import delivery.parts
import messaging.parts
from config.wiring.clients import Clients
from delivery.fanout.worker import Worker


def fanout_worker() -> Worker:
    """A worker whose DynamoDB client refuses to write."""
    clients = Clients(read_only=True)
    posting = chats.parts.assemble_posting(clients.database)
    return delivery.parts.assemble_fanout(
        redis=clients.redis,
        kafka=clients.kafka_options,
        list_members=posting.list_member_ids,
        read_between=messaging.parts.assemble_history(clients.database, posting=posting).payloads_between,
    )
