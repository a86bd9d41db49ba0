"""Identifiers: a prefix that says what it names, and a ULID that sorts by birth.

`user_01HQX…` is safe in URLs, logs and keys. The types keep a chat's id out of a user's place.
"""

import re
from typing import NewType

from ulid.base32 import ENCODE, encode_timestamp
from ulid.constants import TIMESTAMP_LEN

from foundation.kernel.clock import Clock
from foundation.kernel.randomness import Randomness

UserId = NewType("UserId", str)
ChatId = NewType("ChatId", str)
MessageId = NewType("MessageId", str)
SessionId = NewType("SessionId", str)
EventId = NewType("EventId", str)
ConnectionId = NewType("ConnectionId", str)

_ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
# Five bits of each of sixteen random bytes are as random as eighty in a row.
_LETTERS = bytes(ord(ENCODE[byte % len(ENCODE)]) for byte in range(256))
_FORMS = {prefix: re.compile(f"{prefix}_{_ULID}") for prefix in ("user", "chat", "msg", "sess", "evt")}


class IdFactory:
    """Makes new ids from the clock it is given."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._randomness = Randomness()
        self._moment = (-1, "")

    def user(self) -> UserId:
        return UserId(f"user_{self._ulid()}")

    def chat(self) -> ChatId:
        return ChatId(f"chat_{self._ulid()}")

    def message(self) -> MessageId:
        return MessageId(f"msg_{self._ulid()}")

    def session(self) -> SessionId:
        return SessionId(f"sess_{self._ulid()}")

    def event(self) -> EventId:
        return EventId(f"evt_{self._ulid()}")

    def connection(self, gateway_id: str) -> ConnectionId:
        return ConnectionId(f"{gateway_id}.conn_{self._ulid()}")

    def _ulid(self) -> str:
        """As `str(ULID())` makes them, at a fraction of its cost: every message has two."""
        milliseconds = int(self._clock.now().timestamp() * 1000)
        moment, letters = self._moment
        if moment != milliseconds:
            letters = encode_timestamp(milliseconds.to_bytes(TIMESTAMP_LEN))
            self._moment = (milliseconds, letters)
        return letters + self._randomness.take().translate(_LETTERS).decode()


def is_user_id(text: str) -> bool:
    return _FORMS["user"].fullmatch(text) is not None


def is_chat_id(text: str) -> bool:
    return _FORMS["chat"].fullmatch(text) is not None


def is_session_id(text: str) -> bool:
    return _FORMS["sess"].fullmatch(text) is not None
