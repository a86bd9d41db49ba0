"""Logins and logouts of staff in the audit log. The form records refused logins, because only it knows of all."""

from typing import Any

from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.http import HttpRequest

from foundation.rest.addresses import ClientAddress
from staff.services.audit_log import Act, Actor, record


def record_logins(address_of: ClientAddress) -> None:
    """Record every login and logout from now on."""

    def on_login(sender: object, request: HttpRequest, user: Any, **_: Any) -> None:
        how = "a password and a code" if hasattr(user, "otp_device") else "a password"
        note(request, user.get_username(), "log_in", f"with {how}")

    def on_logout(sender: object, request: HttpRequest, user: Any, **_: Any) -> None:
        if user is not None:
            note(request, user.get_username(), "log_out", "on request")

    def note(request: HttpRequest | None, username: str, action: str, reason: str) -> None:
        source = address_of(request) if request is not None else "command"
        record(Act(Actor(username, source), action, username, reason))

    for signal, receiver in ((user_logged_in, on_login), (user_logged_out, on_logout)):
        signal.connect(receiver, weak=False, dispatch_uid=f"staff.{receiver.__name__}")
