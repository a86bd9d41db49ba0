"""Access tokens: JWTs that name a user and a session and expire after 15 minutes.

The algorithm is fixed, and `kid` selects the key. The first key signs and all keys verify: to rotate, put the new key
first and remove the old one after its last token has expired.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import jwt
from jwt.types import Options

from accounts.errors import InvalidToken, TokenExpired
from foundation.kernel.caller import Caller
from foundation.kernel.clock import Clock
from foundation.kernel.ids import SessionId, UserId, is_session_id, is_user_id

ALGORITHM = "HS256"
ISSUER = "parley"
AUDIENCE = "parley-api"
ACCESS_TOKEN_LIFETIME = timedelta(minutes=15)
MAX_TOKEN_LENGTH = 2048
DECODED_TOKENS_CACHED = 8192
_MAX_TIMESTAMP = int(datetime.max.replace(tzinfo=UTC).timestamp())
_CLAIMS = ("aud", "exp", "iat", "iss", "sid", "sub")
# `read` checks the expiry itself, by the clock that is passed in.
_OPTIONS: Options = {"require": list(_CLAIMS), "verify_exp": False, "verify_iat": False, "verify_nbf": False}


class AccessTokens:
    """Issues and reads access tokens. Does not check that the session is active.

    Caches the decoded claims of valid tokens; checks the expiry on every read.
    """

    def __init__(self, keys: Mapping[str, str], *, clock: Clock) -> None:
        self._keys = dict(keys)
        self._signing_kid = next(iter(self._keys))
        self._clock = clock
        self._decoded = lru_cache(maxsize=DECODED_TOKENS_CACHED)(self._decode)

    @property
    def lifetime_seconds(self) -> int:
        return int(ACCESS_TOKEN_LIFETIME.total_seconds())

    def issue(self, *, user_id: UserId, session_id: SessionId) -> str:
        now = self._clock.now()
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": user_id,
            "sid": session_id,
            "iat": int(now.timestamp()),
            "exp": int((now + ACCESS_TOKEN_LIFETIME).timestamp()),
        }
        return jwt.encode(claims, self._keys[self._signing_kid], ALGORITHM, headers={"kid": self._signing_kid})

    def read(self, token: str) -> Caller:
        """The caller that the token authenticates. Raises `InvalidToken`, `TokenExpired`."""
        if len(token) > MAX_TOKEN_LENGTH or not token.isascii():
            raise InvalidToken
        caller = self._decoded(token)
        if caller.expires_at <= self._clock.now():
            raise TokenExpired("The access token has expired: refresh it")
        return caller

    def _decode(self, token: str) -> Caller:
        claims = self._claims(token)
        subject, session, expires = claims["sub"], claims["sid"], claims["exp"]
        if not (isinstance(session, str) and is_user_id(subject) and is_session_id(session)):
            raise InvalidToken
        if not isinstance(expires, int) or not 0 <= expires <= _MAX_TIMESTAMP:
            raise InvalidToken
        expires_at = datetime.fromtimestamp(expires, UTC)
        return Caller(user_id=UserId(subject), session_id=SessionId(session), expires_at=expires_at)

    def _claims(self, token: str) -> dict[str, Any]:
        try:
            kid = jwt.get_unverified_header(token).get("kid")
            key = self._keys.get(kid) if isinstance(kid, str) else None
            if key is None:
                raise InvalidToken
            return jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                issuer=ISSUER,
                options=_OPTIONS,
            )
        except jwt.PyJWTError as error:
            raise InvalidToken from error
