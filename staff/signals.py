"""Logins of staff in the audit log."""

from typing import Any

from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.http import HttpRequest

from foundation.rest.addresses import ClientAddress
from staff.services.audit_log import Act, Actor, record


def record_logins(address_of: ClientAddress) -> None:
    """Record every login, logout and refused login from now on."""

    def on_login(sender: object, request: HttpRequest, user: Any, **_: Any) -> None:
        how = "a password and a code" if hasattr(user, "otp_device") else "a password"
        note(request, user.get_username(), "log_in", f"with {how}")

    def on_logout(sender: object, request: HttpRequest, user: Any, **_: Any) -> None:
        if user is not None:
            note(request, user.get_username(), "log_out", "on request")

    def on_failure(sender: object, credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
        note(request, str(credentials.get("username", ""))[:150], "log_in_failed", "wrong credentials")

    def note(request: HttpRequest | None, username: str, action: str, reason: str) -> None:
        source = address_of(request) if request is not None else "command"
        record(Act(Actor(username, source), action, username, reason))

    for signal, receiver in ((user_logged_in, on_login), (user_logged_out, on_logout), (user_login_failed, on_failure)):
        signal.connect(receiver, weak=False, dispatch_uid=f"staff.{receiver.__name__}")
