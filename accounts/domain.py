"""What accounts are made of, as plain values."""

from dataclasses import dataclass
from datetime import datetime

from foundation.kernel.ids import SessionId, UserId


@dataclass(frozen=True, slots=True)
class PublicUser:
    """What anyone may know of a user."""

    user_id: UserId
    display_name: str


@dataclass(frozen=True, slots=True)
class User:
    """What users know of themselves. `phone_number` is E.164."""

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
    """One device's login. Of its refresh tokens only SHA-256 sums are kept, of the present and the previous one.

    `rotation_salt` is what the present token was derived with, together with the previous one (ADR-010).
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
