"""The errors of accounts, with their stable codes. The docstrings appear in the OpenAPI document."""

from foundation.kernel.errors import Conflict, Forbidden, NotFound, RateLimited, Unauthenticated, Unavailable


class PhoneNumberTaken(Conflict):
    """Another login created a user for the phone number first. The login continues as that user."""


class InvalidToken(Unauthenticated):
    """The access token was not issued by this server, or was modified."""

    title = "The access token is not valid"


class TokenExpired(Unauthenticated):
    """The access token has expired. Refresh it."""

    code = "token_expired"
    title = "The access token has expired"


class SessionRevoked(Unauthenticated):
    """The session of the token has ended: it was logged out, revoked, or not refreshed in time."""

    code = "session_revoked"
    title = "The session has ended, log in again"


class AccountSuspended(Forbidden):
    """Staff has suspended the account. Logging in again does not help; once restored, the same tokens work again."""

    code = "account_suspended"
    title = "This account is suspended"


class InvalidRefreshToken(Unauthenticated):
    """The refresh token was not issued by this server."""

    code = "invalid_refresh_token"
    title = "The refresh token is not valid, log in again"


class InvalidCode(Unauthenticated):
    """The code is wrong, was used, has expired, or was never requested."""

    code = "invalid_code"
    title = "The code is wrong or has expired"


class TooManyAttempts(RateLimited):
    """The login had five attempts. Or five attempts were made without a `login_id`."""

    code = "too_many_attempts"
    title = "Too many attempts, request a new code"


class SmsUnavailable(Unavailable):
    """The SMS could not be sent. The same request may be retried at once."""

    code = "sms_unavailable"
    title = "The SMS could not be sent, try again shortly"


class UserNotFound(NotFound):
    """The user does not exist."""

    code = "user_not_found"
    title = "There is no such user"


class SessionNotFound(NotFound):
    """The session does not exist or belongs to another user."""

    code = "session_not_found"
    title = "You have no such session"
