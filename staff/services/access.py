"""The access patterns of each kind of process: what its role at DynamoDB must allow.

`staff_patterns` and `web_patterns` are those of the modules that are imported: `config.wiring` imports all.
"""

from typing import Any

from chats.stores.inspection import INSPECT_CHATS, INSPECT_COUNTERS
from chats.stores.memberships import LIST_CHAT_MEMBERS
from foundation.stores.dynamodb.patterns import AccessPattern, Operation, declared
from messaging.stores.inspection import INSPECT_MESSAGES_AT
from messaging.stores.messages import GET_MESSAGES_AFTER, GET_SPECIFIC_MESSAGE

FANOUT_PATTERNS = (LIST_CHAT_MEMBERS, GET_MESSAGES_AFTER, GET_SPECIFIC_MESSAGE)
"""Members of a chat that Redis does not know, and entries whose events are missing, with the text of edits."""
WATCH_PATTERNS = (INSPECT_CHATS, INSPECT_COUNTERS, INSPECT_MESSAGES_AT, GET_SPECIFIC_MESSAGE, LIST_CHAT_MEMBERS)
"""Counters of chats in turn, entries that Kafka does not tell of, and what is published again."""


def staff_patterns() -> list[AccessPattern[Any]]:
    """All there are."""
    return list(declared())


def web_patterns() -> list[AccessPattern[Any]]:
    return [pattern for pattern in declared() if pattern.operation is not Operation.OFFLINE_SCAN]
