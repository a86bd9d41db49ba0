"""Logging in: a password and a one-time code, a limited number of times; and the enrolment of a device."""

from typing import Any

import segno
from django import forms
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ValidationError
from django_otp import match_token, user_has_device

from foundation.kernel.errors import RateLimited, Unavailable
from foundation.rest.addresses import ClientAddress
from staff.services.audit_log import Act, Actor, record
from staff.services.login_attempts import LoginAttempts

QR_SCALE = 4


class StaffLoginForm(AdminAuthenticationForm):
    """Asks for a one-time code too, which people with a device must give."""

    error_messages = {
        **AdminAuthenticationForm.error_messages,
        "invalid_login": "Name, password and one-time code do not match a staff account. Name and password are "
        "case-sensitive, and a code is accepted once: wait for the next one.",
    }

    otp_token = forms.CharField(
        label="One-time code",
        required=False,
        max_length=8,
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "numeric"}),
    )

    def __init__(self, *args: Any, attempts: LoginAttempts, address_of: ClientAddress, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._attempts = attempts
        self._address_of = address_of

    def clean(self) -> dict[str, Any]:
        username = self.cleaned_data.get("username") or ""
        address = self._address_of(self.request) if self.request else ""
        try:
            self._require_allowed(username, address)
            cleaned = self._checked(username, address)
            self._attempts.note_success(username, address)
        except RateLimited as error:
            raise ValidationError(f"Too many attempts. {error.detail}") from error
        except Unavailable as error:
            raise ValidationError("Logins cannot be checked now: try again shortly.") from error
        return cleaned

    def _require_allowed(self, username: str, address: str) -> None:
        try:
            self._attempts.require_allowed(username, address)
        except RateLimited:
            if self._attempts.should_report(username, address):
                _record_refusal(username, address, "too many attempts; the next ones are not recorded for ten minutes")
            raise

    def _checked(self, username: str, address: str) -> dict[str, Any]:
        """Whoever is refused gets the same answer whatever the cause. The audit log has the cause."""
        try:
            return super().clean()
        except ValidationError:
            user = self.user_cache
            if user is None:
                cause = "wrong name or password"
            elif not user.is_staff:
                cause = "the password of an account that is not staff"
            else:
                cause = "a password without the one-time code"
            _record_refusal(username, address, cause)
            raise

    def confirm_login_allowed(self, user: User) -> None:
        """A wrong code gets the same answer as a wrong password."""
        super().confirm_login_allowed(user)
        if user_has_device(user):
            token = self.cleaned_data.get("otp_token")
            device = match_token(user, token) if token else None
            if device is None:
                raise self.get_invalid_login_error()
            user.otp_device = device  # type: ignore[attr-defined]


def _record_refusal(username: str, address: str, cause: str) -> None:
    record(Act(Actor(username, address), "log_in_failed", username, cause))


class EnrolmentForm(forms.Form):
    otp_token = forms.CharField(
        label="One-time code",
        max_length=8,
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "numeric"}),
    )


def qr_code(uri: str) -> str:
    """The URI as an inline SVG, without styles."""
    return segno.make(uri).svg_inline(scale=QR_SCALE)


def may_enrol(user: User | AnonymousUser) -> bool:
    """Whether the user has no device yet."""
    return user.is_active and user.is_staff and not user_has_device(user)
