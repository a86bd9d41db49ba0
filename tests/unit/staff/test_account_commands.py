"""Django's commands for staff accounts, in place of which ours run: what they do is in the audit log."""

import getpass

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError

from staff.models import AuditRecord

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"


def records() -> list[tuple[str, str, str, str]]:
    return [(each.actor, each.action, each.target, each.reason) for each in AuditRecord.objects.all()]


def create(**options: str) -> None:
    call_command("createsuperuser", interactive=False, username="grace", email="grace@example.org", **options)


class TestCreateSuperuser:
    def test_the_account_is_made_and_recorded_with_who_and_why(self) -> None:
        create(actor="ada", reason="the first")
        assert User.objects.get(username="grace").is_superuser
        assert records() == [("ada", "create_account", "grace", "the first")]

    def test_without_a_reason_the_record_tells_that_a_command_did_it(self) -> None:
        create()
        ((actor, *rest),) = records()
        assert actor.startswith("os:")
        assert rest == ["create_account", "grace", "by command"]

    def test_a_name_that_is_taken_is_refused_and_not_recorded(self) -> None:
        User.objects.create_user("grace")
        with pytest.raises(CommandError):
            create()
        assert records() == []

    def test_a_reason_that_is_too_long_makes_no_account(self) -> None:
        with pytest.raises(CommandError, match="Say why"):
            create(reason="x" * 1001)
        assert not User.objects.exists()

    def test_accounts_that_are_stored_later_are_not_recorded_by_it(self) -> None:
        create()
        User.objects.create_user("alan")
        assert [target for _, _, target, _ in records()] == ["grace"]


class TestChangePassword:
    def test_the_change_is_recorded_and_the_password_is_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        User.objects.create_user("grace")
        monkeypatch.setattr(getpass, "getpass", lambda prompt: PASSWORD)
        call_command("changepassword", "grace", actor="ada", reason="forgotten")
        assert User.objects.get(username="grace").check_password(PASSWORD)
        assert records() == [("ada", "change_password", "grace", "forgotten")]
