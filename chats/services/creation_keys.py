"""What chat creation needs from whoever remembers requests.

The table of idempotency keys belongs to `messaging`, which stands above `chats`; so `chats` says here what it needs,
`messaging` implements it, and the wiring puts the two together.
"""

from datetime import datetime
from typing import Protocol

from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import Write


class CreationKeys(Protocol):
    """Remembers for 24 hours which chat a user's `Idempotency-Key` led to.

    A key is an item of `idempotency_keys` under `chat_id = "request#<user_id>"`, `client_message_id = <the key>`, so
    the keys of different users never meet. An expired item counts as absent, deleted or not.
    """

    def remembering(self, user_id: UserId, key: str, *, chat_id: ChatId, now: datetime) -> Write:
        """The key's part of the creating transaction: a put on condition that the key is absent or expired."""
        ...

    def find(self, user_id: UserId, key: str, *, now: datetime) -> ChatId | None:
        """The chat that the key led to, read strongly; None when the key is unknown or expired."""
        ...
