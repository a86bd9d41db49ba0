"""Login by phone: send a code, verify it, open a session.

No user is read before the code is verified, so neither responses nor their timing reveal whether a number has a user.
"""

import logging
import secrets
from contextlib import suppress
from dataclasses import dataclass

from accounts import display_names, phone_numbers
from accounts.domain import User
from accounts.errors import AccountSuspended, SmsUnavailable, TooManyAttempts
from accounts.services.guard import CodeRequest, LoginGuard
from accounts.services.metrics import SMS_MESSAGES
from accounts.services.registration import Registration
from accounts.services.sessions import Sessions, TokenPair
from accounts.services.sms import CodeMessage, SmsSender
from accounts.stores.codes import LoginCodes, RedeemedCode
from foundation.kernel.errors import Unavailable
from foundation.stores.errors import StoreUnavailable

log = logging.getLogger(__name__)

CODE_DIGITS = 6


@dataclass(frozen=True, slots=True)
class CodeSent:
    """`login_id` is for the attempts with this code. The other values are in seconds."""

    login_id: str
    expires_in: int
    resend_after: int


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    phone_number: str
    code: str
    device_id: str
    display_name: str | None
    address: str
    login_id: str | None = None


@dataclass(frozen=True, slots=True)
class Login:
    user: User
    is_new_user: bool
    tokens: TokenPair


class PhoneLogin:
    def __init__(
        self,
        *,
        guard: LoginGuard,
        codes: LoginCodes,
        sms: SmsSender,
        registration: Registration,
        sessions: Sessions,
    ) -> None:
        self._guard = guard
        self._codes = codes
        self._sms = sms
        self._registration = registration
        self._sessions = sessions

    def request_code(self, *, phone_number: str, address: str, login_id: str | None = None) -> CodeSent:
        """Send a new code. Raises `Invalid`, `RateLimited`, `SmsUnavailable`.

        The code is stored before it is sent, so that it is valid when it arrives. With the
        `login_id` of an earlier request, the code is for that login, whose holder may have a few more codes.
        """
        number = phone_numbers.normalize(phone_number)
        self._guard.require_request_allowed(address)
        held = login_id if login_id is not None and self._codes.is_open(number, login_id) else None
        request = CodeRequest(self._codes.pseudonym(number), phone_numbers.country_code(number), address, held)
        self._guard.require_code_allowed(request)
        code = f"{secrets.randbelow(10**CODE_DIGITS):0{CODE_DIGITS}d}"
        new_id = self._codes.save(number, code, held)
        try:
            self._sms.send(CodeMessage(to=number, code=code, body=_body(code, self._codes.lifetime_seconds)))
        except SmsUnavailable:
            SMS_MESSAGES.labels("failed").inc()
            self._codes.delete(number, new_id)
            self._guard.refund_code(request)
            raise
        SMS_MESSAGES.labels("sent").inc()
        return CodeSent(
            login_id=new_id,
            expires_in=self._codes.lifetime_seconds,
            resend_after=round(self._guard.policy.resend_after),
        )

    def verify(self, attempt: LoginAttempt) -> Login:
        """Open a session; create the user if the number is new.

        Raises `Invalid`, `InvalidCode`, `TooManyAttempts`, `AccountSuspended`.

        Success consumes the code. If a store then fails, the code is restored, so that the request can be retried.
        """
        number = phone_numbers.normalize(attempt.phone_number)
        name = None if attempt.display_name is None else display_names.normalize(attempt.display_name)
        self._guard.require_attempt_allowed(attempt.address)
        redeemed = self._redeem(number, attempt)
        try:
            user, is_new = self._registration.find_or_create(number, display_name=name)
            if user.suspended_at is not None:
                raise AccountSuspended
            tokens = self._sessions.open(user_id=user.user_id, device_id=attempt.device_id)
        except Unavailable:
            with suppress(StoreUnavailable):
                self._codes.restore(redeemed)
            raise
        with suppress(StoreUnavailable):
            self._guard.note_login(self._codes.pseudonym(number), attempt.address)
        log.info("login of %s, session %s", user.user_id, tokens.session_id)
        return Login(user=user, is_new_user=is_new, tokens=tokens)

    def _redeem(self, number: str, attempt: LoginAttempt) -> RedeemedCode:
        try:
            return self._codes.redeem(number, attempt.code, attempt.login_id)
        except TooManyAttempts as error:
            error.retry_after = self._guard.policy.resend_after
            raise


def _body(code: str, lifetime_seconds: int) -> str:
    return f"{code} is your Parley code. It is good for {lifetime_seconds // 60} minutes. Share it with nobody."
