"""Login codes in Redis, under `login:`, for five minutes.

Redis holds HMACs of the codes and, in the keys, of the phone numbers; neither can be read from it. One script counts an
attempt and returns the digest to compare, so at most `MAX_ATTEMPTS` concurrent guesses are compared.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import cast

import redis

from accounts.errors import InvalidCode, TooManyAttempts
from foundation.stores.redis.client import naming_failures

CODE_LIFETIME_SECONDS = 300
MAX_ATTEMPTS = 5

_WRITE = """
if ARGV[3] == 'keep newer' and redis.call('EXISTS', KEYS[1]) == 1 then return end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'digest', ARGV[1], 'attempts', 0)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
_ATTEMPT = """
local digest = redis.call('HGET', KEYS[1], 'digest')
if not digest then return {0, ''} end
local attempts = redis.call('HINCRBY', KEYS[1], 'attempts', 1)
return {attempts, digest}
"""
_REDEEM = """
if redis.call('HGET', KEYS[1], 'digest') ~= ARGV[1] then return -1 end
local left = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
return left
"""


@dataclass(frozen=True, slots=True)
class RedeemedCode:
    """A consumed code, with what `restore` needs if the login cannot be completed."""

    key: str
    digest: str
    milliseconds_left: int


class LoginCodes:
    def __init__(self, client: "redis.Redis", *, secret: str, lifetime_seconds: int = CODE_LIFETIME_SECONDS) -> None:
        self._client = client
        self._secret = hashlib.sha256(b"login codes:" + secret.encode()).digest()
        self._write = client.register_script(_WRITE)
        self._attempt = client.register_script(_ATTEMPT)
        self._redeem = client.register_script(_REDEEM)
        self.lifetime_seconds = lifetime_seconds

    def save(self, phone_number: str, code: str) -> None:
        """Store the number's code, replacing any previous one, with no attempts counted."""
        digest = self._digest(phone_number, code)
        with naming_failures():
            self._write(keys=[self._key(phone_number)], args=[digest, self.lifetime_seconds * 1000, "replace"])

    def delete(self, phone_number: str) -> None:
        with naming_failures():
            self._client.delete(self._key(phone_number))

    def redeem(self, phone_number: str, code: str) -> RedeemedCode:
        """Consume the code. Raises `InvalidCode`, `TooManyAttempts`.

        Exactly one of several concurrent callers with the right code succeeds.
        """
        key, digest = self._key(phone_number), self._digest(phone_number, code)
        with naming_failures():
            attempts, kept = cast("tuple[int, bytes]", self._attempt(keys=[key]))
            if attempts > MAX_ATTEMPTS:
                raise TooManyAttempts
            if not hmac.compare_digest(kept, digest.encode()):
                raise InvalidCode
            left = cast(int, self._redeem(keys=[key], args=[digest]))
        if left < 0:
            raise InvalidCode
        return RedeemedCode(key=key, digest=digest, milliseconds_left=left)

    def restore(self, code: RedeemedCode) -> None:
        """Make a redeemed code valid again for its remaining lifetime, unless a newer code exists."""
        with naming_failures():
            self._write(keys=[code.key], args=[code.digest, max(1, code.milliseconds_left), "keep newer"])

    def pseudonym(self, phone_number: str) -> str:
        """A keyed hash of the number, for keys in Redis."""
        return self._hmac("number", phone_number)

    def _key(self, phone_number: str) -> str:
        return f"login:{self.pseudonym(phone_number)}"

    def _digest(self, phone_number: str, code: str) -> str:
        return self._hmac("code", phone_number, code)

    def _hmac(self, *parts: str) -> str:
        return hmac.new(self._secret, "\0".join(parts).encode(), hashlib.sha256).hexdigest()
