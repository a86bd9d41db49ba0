"""Login codes in Redis, under `login:`, for five minutes.

Neither the code nor the phone number can be read from Redis: the code is kept as an HMAC with the project's secret, and
so is the number in the key. Counting an attempt and reading what it is compared with are one step in Redis, so however
many guesses arrive at once, no more than `ATTEMPTS` of them are compared.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import cast

import redis

from accounts.errors import InvalidCode, TooManyAttempts
from foundation.stores.redis.client import naming_failures

LIFETIME = 300
ATTEMPTS = 5

_WRITE = """
if ARGV[3] == 'yield' and redis.call('EXISTS', KEYS[1]) == 1 then return end
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
    """A code that was right and is now used up; enough to put it back when the login cannot be finished."""

    key: str
    digest: str
    milliseconds_left: int


class LoginCodes:
    def __init__(self, client: "redis.Redis", *, secret: str, lifetime: int = LIFETIME) -> None:
        self._client = client
        self._secret = hashlib.sha256(b"login codes:" + secret.encode()).digest()
        self._write = client.register_script(_WRITE)
        self._attempt = client.register_script(_ATTEMPT)
        self._redeem = client.register_script(_REDEEM)
        self.lifetime = lifetime

    def keep(self, phone_number: str, code: str) -> None:
        """Make this the number's only code, with all its attempts."""
        digest = self._digest(phone_number, code)
        with naming_failures():
            self._write(keys=[self._key(phone_number)], args=[digest, self.lifetime * 1000, "replace"])

    def discard(self, phone_number: str) -> None:
        with naming_failures():
            self._client.delete(self._key(phone_number))

    def redeem(self, phone_number: str, code: str) -> RedeemedCode:
        """Use the code up. Raises `InvalidCode`, and `TooManyAttempts` once the attempts are used up.

        Of several callers with the right code, one succeeds.
        """
        key, digest = self._key(phone_number), self._digest(phone_number, code)
        with naming_failures():
            attempts, kept = cast("tuple[int, bytes]", self._attempt(keys=[key]))
            if attempts > ATTEMPTS:
                raise TooManyAttempts
            if not hmac.compare_digest(kept, digest.encode()):
                raise InvalidCode
            left = cast(int, self._redeem(keys=[key], args=[digest]))
        if left < 0:
            raise InvalidCode
        return RedeemedCode(key=key, digest=digest, milliseconds_left=left)

    def put_back(self, code: RedeemedCode) -> None:
        """Make a redeemed code good again for the rest of its time, unless a newer one took its place."""
        with naming_failures():
            self._write(keys=[code.key], args=[code.digest, max(1, code.milliseconds_left), "yield"])

    def pseudonym(self, phone_number: str) -> str:
        """A name for the number that does not tell it, for keys in Redis."""
        return self._hmac("number", phone_number)

    def _key(self, phone_number: str) -> str:
        return f"login:{self.pseudonym(phone_number)}"

    def _digest(self, phone_number: str, code: str) -> str:
        return self._hmac("code", phone_number, code)

    def _hmac(self, *parts: str) -> str:
        return hmac.new(self._secret, "\0".join(parts).encode(), hashlib.sha256).hexdigest()
