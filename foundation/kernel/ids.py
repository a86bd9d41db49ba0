"""Identifiers: a prefix that names the kind, and a ULID that sorts by creation time.

`user_01HQX…` is safe in URLs, logs and keys. The types keep a chat's id out of a user's place.
"""

import os
import re
from typing import NewType

from ulid.base32 import ENCODE, encode_timestamp
from ulid.constants import TIMESTAMP_LEN

from foundation.kernel.clock import Clock

UserId = NewType("UserId", str)
ChatId = NewType("ChatId", str)
MessageId = NewType("MessageId", str)
SessionId = NewType("SessionId", str)
EventId = NewType("EventId", str)
ConnectionId = NewType("ConnectionId", str)

_ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
_FORMS = {prefix: re.compile(f"{prefix}_{_ULID}") for prefix in ("user", "chat", "msg", "sess", "evt")}
# Maps a random byte to the base32 letter of its lowest five bits: 16 bytes give the 80 random bits of a ULID.
_LETTERS = bytes(ord(ENCODE[byte % len(ENCODE)]) for byte in range(256))
RANDOM_BYTES = 16
BUFFERED = 256


class RandomBytes:
    """Hands out 16 random bytes at a time from a buffer. Thread-safe: `list.pop` is atomic.

    Each call of `os.urandom` releases the GIL, and a busy process waits milliseconds to get it back.
    """

    def __init__(self) -> None:
        self._unused: list[bytes] = []
        os.register_at_fork(after_in_child=self._unused.clear)

    def take(self) -> bytes:
        while True:
            try:
                return self._unused.pop()
            except IndexError:
                fresh = os.urandom(RANDOM_BYTES * BUFFERED)
                self._unused += [fresh[at : at + RANDOM_BYTES] for at in range(0, len(fresh), RANDOM_BYTES)]


class IdFactory:
    """Makes new ids from the clock it is given."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._random = RandomBytes()
        self._timestamp = (-1, "")

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
        """The same as `str(ULID())`, with the timestamp's letters cached for a millisecond: every message has two."""
        milliseconds = int(self._clock.now().timestamp() * 1000)
        cached, letters = self._timestamp
        if cached != milliseconds:
            letters = encode_timestamp(milliseconds.to_bytes(TIMESTAMP_LEN))
            self._timestamp = (milliseconds, letters)
        return letters + self._random.take().translate(_LETTERS).decode()


def is_user_id(text: str) -> bool:
    return _FORMS["user"].fullmatch(text) is not None


def is_chat_id(text: str) -> bool:
    return _FORMS["chat"].fullmatch(text) is not None


def is_session_id(text: str) -> bool:
    return _FORMS["sess"].fullmatch(text) is not None
