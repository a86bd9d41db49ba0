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
class Visibility:
    """What a user lets others see, and therefore sees of them; and when the last connection ended."""

    read_receipts: bool = True
    show_presence: bool = True
    last_seen: datetime | None = None


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """What a user changes of itself; None: nothing."""

    display_name: str | None = None
    read_receipts: bool | None = None
    show_presence: bool | None = None


@dataclass(frozen=True, slots=True)
class User:
    """A user, as seen by that user and by staff only. `phone_number` is E.164."""

    user_id: UserId
    phone_number: str
    phone_verified: bool
    display_name: str
    created_at: datetime
    updated_at: datetime
    suspended_at: datetime | None = None
    visibility: Visibility = Visibility()

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


@dataclass(frozen=True, slots=True)
class SessionState:
    """What a token's session and user are now: the session, if it is active, and whether the user is suspended."""

    session: Session | None
    is_suspended: bool = False
