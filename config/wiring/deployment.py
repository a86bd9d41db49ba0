"""What the deployment's templates are made from: the tables, and the access patterns of each kind of process."""

from typing import Any

import config.wiring.staff  # noqa: F401
from chats.stores.memberships import LIST_CHAT_MEMBERS
from config.wiring.commands import TABLES
from deploy.aws import data
from foundation.stores.dynamodb.patterns import Operation, declared
from messaging.stores.messages import GET_MESSAGES_AFTER, GET_SPECIFIC_MESSAGE

FANOUT_PATTERNS = (LIST_CHAT_MEMBERS, GET_MESSAGES_AFTER, GET_SPECIFIC_MESSAGE)
"""Members of a chat that Redis does not know, and entries whose events are missing, with the text of edits."""


def data_template() -> dict[str, Any]:
    patterns = list(declared())
    online = [pattern for pattern in patterns if pattern.operation is not Operation.OFFLINE_SCAN]
    return data.template(TABLES, web=online, fanout=FANOUT_PATTERNS, staff=patterns)
