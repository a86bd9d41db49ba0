"""The interface of the idempotency keys for chat creation.

`messaging` owns the table and implements the interface, because `chats` must not import `messaging`.
"""

from datetime import datetime
from typing import Protocol

from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import Write


class CreationKeys(Protocol):
    """Stores for 24 hours which chat a user's `Idempotency-Key` created.

    A key is an item of `idempotency_keys` with `chat_id = "request#<user_id>"` and `client_message_id = <the key>`, so
    keys are scoped to their user. An expired item counts as absent.
    """

    def remembering(self, user_id: UserId, key: str, *, chat_id: ChatId, now: datetime) -> Write:
        """The write to add to the transaction: a put, conditional on the key being absent or expired."""
        ...

    def find(self, user_id: UserId, key: str, *, now: datetime) -> ChatId | None:
        """The chat that the key created, by a strongly consistent read."""
        ...
