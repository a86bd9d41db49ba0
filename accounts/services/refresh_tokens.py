"""Refresh tokens: `<session id>.<256 bits>.<MAC>`. Only their SHA-256 hashes are stored.

The first token of a session is random. Each successor is derived from the previous token, a random salt stored in the
session, and a secret key. So concurrent requests with the same token get the same successor, and neither the table nor
a token alone reveals it (ADR-010). The MAC rejects a forged token without a read, and keeps it from being taken for a
replayed one, which would end the session.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from accounts.errors import InvalidRefreshToken
from foundation.kernel.ids import SessionId, is_session_id

_FORMAT = re.compile(r"(sess_[0-9A-Z]{26})\.([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{22})")


@dataclass(frozen=True, slots=True)
class RefreshToken:
    session_id: SessionId
    secret: str
    mac: str

    @property
    def text(self) -> str:
        return f"{self.session_id}.{self.secret}.{self.mac}"

    @property
    def digest(self) -> str:
        """The hash that is stored."""
        return hashlib.sha256(f"{self.session_id}.{self.secret}".encode()).hexdigest()


class RefreshTokens:
    """Issues tokens with `secret` and reads tokens issued with it or with one of `fallbacks`."""

    def __init__(self, secret: str, *, fallbacks: Sequence[str] = ()) -> None:
        self._keys = [hashlib.sha256(b"refresh tokens:" + text.encode()).digest() for text in (secret, *fallbacks)]

    def first(self, session_id: SessionId) -> RefreshToken:
        return self._with_mac(session_id, secrets.token_urlsafe(32))

    def salt(self) -> str:
        return secrets.token_urlsafe(32)

    def successor(self, token: RefreshToken, *, salt: str) -> RefreshToken:
        """Derive the token that follows this one with this salt."""
        return self._derived(self._keys[0], token, salt)

    def find_successor(self, token: RefreshToken, *, salt: str, digest: str) -> RefreshToken | None:
        """The successor with this digest, derived with any of the secrets."""
        candidates = (self._derived(key, token, salt) for key in self._keys)
        return next((found for found in candidates if hmac.compare_digest(found.digest, digest)), None)

    def read(self, text: str) -> RefreshToken:
        """Raises `InvalidRefreshToken` unless this server issued the token."""
        match = _FORMAT.fullmatch(text)
        if match is None or not is_session_id(match[1]):
            raise InvalidRefreshToken
        token = RefreshToken(session_id=SessionId(match[1]), secret=match[2], mac=match[3])
        if not any(hmac.compare_digest(token.mac, _mac(key, token.session_id, token.secret)) for key in self._keys):
            raise InvalidRefreshToken
        return token

    def _derived(self, key: bytes, token: RefreshToken, salt: str) -> RefreshToken:
        return self._with_mac(token.session_id, _base64(_hmac(key, "successor", token.session_id, token.secret, salt)))

    def _with_mac(self, session_id: SessionId, secret: str) -> RefreshToken:
        return RefreshToken(session_id=session_id, secret=secret, mac=_mac(self._keys[0], session_id, secret))


def _mac(key: bytes, session_id: SessionId, secret: str) -> str:
    # The label "seal" is part of every issued token: another one would end all sessions.
    return _base64(_hmac(key, "seal", session_id, secret)[:16])


def _hmac(key: bytes, *parts: str) -> bytes:
    return hmac.new(key, "\0".join(parts).encode(), hashlib.sha256).digest()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
