"""Login codes in Redis, under `login:`, for five minutes.

Each request for a code makes a login with an id of its own, its own code and its own count of attempts, so nobody but
the holder of a `login_id` can use its attempts up. Attempts without an id are for the number's newest code and have a
count of their own. Redis holds HMACs of the codes and, in the keys, of the phone numbers; neither can be read from it.
One script counts an attempt and returns the digest to compare, so at most `MAX_ATTEMPTS` concurrent guesses of each
kind are compared.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import cast

import redis

from accounts.errors import InvalidCode, TooManyAttempts
from foundation.stores.redis.client import naming_failures

CODE_LIFETIME_SECONDS = 300
MAX_ATTEMPTS = 5
LOGIN_ID_BYTES = 18

# KEYS[1] is a login, KEYS[2] the newest login of its number. Both hold the digest and the attempts made with that key.
_WRITE = """
local function write(key)
  local attempts = ARGV[4] == 'again' and redis.call('HGET', key, 'attempts') or 0
  redis.call('HSET', key, 'login_id', ARGV[1], 'digest', ARGV[2], 'attempts', attempts)
  redis.call('PEXPIRE', key, ARGV[3])
end
write(KEYS[1])
if ARGV[4] ~= 'restore' or redis.call('EXISTS', KEYS[2]) == 0 then write(KEYS[2]) end
"""
_ATTEMPT = """
local found = redis.call('HMGET', KEYS[1], 'digest', 'login_id')
if not found[1] then return {0, '', ''} end
return {redis.call('HINCRBY', KEYS[1], 'attempts', 1), found[1], found[2]}
"""
_REDEEM = """
if redis.call('HGET', KEYS[1], 'digest') ~= ARGV[2] then return -1 end
local left = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
if redis.call('HGET', KEYS[2], 'login_id') == ARGV[1] then redis.call('DEL', KEYS[2]) end
return left
"""


@dataclass(frozen=True, slots=True)
class RedeemedCode:
    """A consumed code, with what `restore` needs if the login cannot be completed."""

    phone_number: str
    login_id: str
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

    def save(self, phone_number: str, code: str, login_id: str | None = None) -> str:
        """Store a code for the number and return the id of its login. Other logins of the number stay valid.

        With the id of an existing login, the code replaces that login's, and its attempts still count.
        """
        mode = "new" if login_id is None else "again"
        login_id = login_id or f"login_{secrets.token_urlsafe(LOGIN_ID_BYTES)}"
        self._store(phone_number, login_id, self._digest(phone_number, code), self.lifetime_seconds * 1000, mode)
        return login_id

    def delete(self, phone_number: str, login_id: str) -> None:
        with naming_failures():
            self._client.delete(*self._keys(phone_number, login_id))

    def is_open(self, phone_number: str, login_id: str) -> bool:
        """Whether the number has this login, with attempts left."""
        with naming_failures():
            attempts = cast("bytes | None", self._client.hget(self._keys(phone_number, login_id)[0], "attempts"))
        return attempts is not None and int(attempts) < MAX_ATTEMPTS

    def redeem(self, phone_number: str, code: str, login_id: str | None) -> RedeemedCode:
        """Consume the code of a login, or of the number's newest one. Raises `InvalidCode`, `TooManyAttempts`.

        Exactly one of several concurrent callers with the right code succeeds.
        """
        digest = self._digest(phone_number, code)
        key = self._newest(phone_number) if login_id is None else self._keys(phone_number, login_id)[0]
        with naming_failures():
            attempts, kept, kept_id = cast("tuple[int, bytes, bytes]", self._attempt(keys=[key]))
            if attempts > MAX_ATTEMPTS:
                raise TooManyAttempts
            if not hmac.compare_digest(kept, digest.encode()):
                raise InvalidCode
            login_id = kept_id.decode()
            left = cast(int, self._redeem(keys=self._keys(phone_number, login_id), args=[login_id, digest]))
        if left < 0:
            raise InvalidCode
        return RedeemedCode(phone_number, login_id, digest, milliseconds_left=left)

    def restore(self, code: RedeemedCode) -> None:
        """Make a redeemed code valid again for its remaining lifetime. A newer one of the number stays the newest."""
        self._store(code.phone_number, code.login_id, code.digest, max(1, code.milliseconds_left), "restore")

    def _store(self, phone_number: str, login_id: str, digest: str, milliseconds: int, mode: str) -> None:
        with naming_failures():
            self._write(keys=self._keys(phone_number, login_id), args=[login_id, digest, milliseconds, mode])

    def pseudonym(self, phone_number: str) -> str:
        """A keyed hash of the number, for keys in Redis."""
        return self._hmac("number", phone_number)

    def _keys(self, phone_number: str, login_id: str) -> list[str]:
        newest = self._newest(phone_number)
        return [f"{newest}:{login_id}", newest]

    def _newest(self, phone_number: str) -> str:
        return f"login:{self.pseudonym(phone_number)}"

    def _digest(self, phone_number: str, code: str) -> str:
        return self._hmac("code", phone_number, code)

    def _hmac(self, *parts: str) -> str:
        return hmac.new(self._secret, "\0".join(parts).encode(), hashlib.sha256).hexdigest()
