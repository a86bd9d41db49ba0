"""Refresh tokens: `<session id>.<256 bits>.<seal>`, of which only a SHA-256 sum is ever stored.

The first token of a session is random. Each next one is derived from its predecessor, a random salt kept in the
session, and the project's secret: so two requests that race with the same token are given the same successor, and
neither a stolen table nor a stolen token alone yields it (ADR-010). The seal proves that a token was issued here: a
made-up one is refused before DynamoDB is asked, and cannot pass for a replayed one, which would end the session.
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

_FORM = re.compile(r"(sess_[0-9A-Z]{26})\.([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{22})")


@dataclass(frozen=True, slots=True)
class RefreshToken:
    session_id: SessionId
    secret: str
    seal: str

    @property
    def text(self) -> str:
        return f"{self.session_id}.{self.secret}.{self.seal}"

    @property
    def digest(self) -> str:
        """What is stored."""
        return hashlib.sha256(f"{self.session_id}.{self.secret}".encode()).hexdigest()


class RefreshTokens:
    """Makes them with `secret`, and reads those made with it or with one of its predecessors, `fallbacks`."""

    def __init__(self, secret: str, *, fallbacks: Sequence[str] = ()) -> None:
        self._keys = [hashlib.sha256(b"refresh tokens:" + text.encode()).digest() for text in (secret, *fallbacks)]

    def first(self, session_id: SessionId) -> RefreshToken:
        return self._sealed(session_id, secrets.token_urlsafe(32))

    def salt(self) -> str:
        return secrets.token_urlsafe(32)

    def successor(self, token: RefreshToken, *, salt: str) -> RefreshToken:
        """The one token that follows this one with this salt."""
        return self._derived(self._keys[0], token, salt)

    def find_successor(self, token: RefreshToken, *, salt: str, digest: str) -> RefreshToken | None:
        """The successor that was stored under this digest, whichever of the secrets it was derived with."""
        candidates = (self._derived(key, token, salt) for key in self._keys)
        return next((found for found in candidates if hmac.compare_digest(found.digest, digest)), None)

    def read(self, text: str) -> RefreshToken:
        """Raises `InvalidRefreshToken` for what was not issued here."""
        match = _FORM.fullmatch(text)
        if match is None or not is_session_id(match[1]):
            raise InvalidRefreshToken
        token = RefreshToken(session_id=SessionId(match[1]), secret=match[2], seal=match[3])
        if not any(hmac.compare_digest(token.seal, _seal(key, token.session_id, token.secret)) for key in self._keys):
            raise InvalidRefreshToken
        return token

    def _derived(self, key: bytes, token: RefreshToken, salt: str) -> RefreshToken:
        return self._sealed(token.session_id, _base64(_hmac(key, "successor", token.session_id, token.secret, salt)))

    def _sealed(self, session_id: SessionId, secret: str) -> RefreshToken:
        return RefreshToken(session_id=session_id, secret=secret, seal=_seal(self._keys[0], session_id, secret))


def _seal(key: bytes, session_id: SessionId, secret: str) -> str:
    return _base64(_hmac(key, "seal", session_id, secret)[:16])


def _hmac(key: bytes, *parts: str) -> bytes:
    return hmac.new(key, "\0".join(parts).encode(), hashlib.sha256).digest()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
