"""The values of accounts."""

from dataclasses import dataclass
from datetime import datetime

from foundation.kernel.ids import SessionId, UserId


@dataclass(frozen=True, slots=True)
class PublicUser:
    """The part of a user that every user may see."""

    user_id: UserId
    display_name: str


@dataclass(frozen=True, slots=True)
class User:
    """A user, as seen by that user only. `phone_number` is E.164."""

    user_id: UserId
    phone_number: str
    phone_verified: bool
    display_name: str
    created_at: datetime
    updated_at: datetime

    @property
    def public(self) -> PublicUser:
        return PublicUser(user_id=self.user_id, display_name=self.display_name)


@dataclass(frozen=True, slots=True)
class Session:
    """The login of one device, with the SHA-256 hashes of its current and its previous refresh token.

    The current token is derived from the previous one and `rotation_salt` (ADR-010).
    """

    session_id: SessionId
    user_id: UserId
    device_id: str
    refresh_token_hash: str
    created_at: datetime
    expires_at: datetime
    previous_token_hash: str | None = None
    rotation_salt: str | None = None
    rotated_at: datetime | None = None
