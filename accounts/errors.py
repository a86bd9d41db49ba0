"""How accounts refuse, each failure with the code that clients know it by."""

from foundation.kernel.errors import Conflict, NotFound, RateLimited, Unauthenticated, Unavailable


class PhoneNumberTaken(Conflict):
    """Someone claimed the phone number first; the login that lost the race goes on as that user."""


class InvalidToken(Unauthenticated):
    """The access token was not issued by this server for this use, or was changed on its way."""

    title = "The access token is not valid"


class TokenExpired(Unauthenticated):
    """The access token was good and its time is over: refresh it."""

    code = "token_expired"
    title = "The access token has expired"


class SessionRevoked(Unauthenticated):
    """The session behind the token has ended: logged out, revoked, or not refreshed for too long."""

    code = "session_revoked"
    title = "The session has ended, log in again"


class InvalidRefreshToken(Unauthenticated):
    """The refresh token is not one that this server issued, or is no longer known."""

    code = "invalid_refresh_token"
    title = "The refresh token is not valid, log in again"


class InvalidCode(Unauthenticated):
    """The code is wrong, was used, has expired, or was never asked for; which of these is not told."""

    code = "invalid_code"
    title = "The code is wrong or has expired"


class TooManyAttempts(RateLimited):
    """Five attempts were made on this code, so it is burnt."""

    code = "too_many_attempts"
    title = "Too many attempts, request a new code"


class SmsUnavailable(Unavailable):
    """The SMS could not be handed over. Nothing was used up: the same request may be sent again at once."""

    code = "sms_unavailable"
    title = "The SMS could not be sent, try again shortly"


class UserNotFound(NotFound):
    """There is no such user."""

    code = "user_not_found"
    title = "There is no such user"


class SessionNotFound(NotFound):
    """The caller has no such session."""

    code = "session_not_found"
    title = "You have no such session"
