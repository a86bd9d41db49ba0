"""The authenticated caller of a request."""

from dataclasses import dataclass
from datetime import datetime

from foundation.kernel.ids import SessionId, UserId


@dataclass(frozen=True, slots=True)
class Caller:
    user_id: UserId
    session_id: SessionId
    expires_at: datetime
    device_id: str = ""

    @property
    def is_authenticated(self) -> bool:
        return True
