"""Staff accounts: only superusers make and change them, and every change is recorded with its reason."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from staff.models import AuditRecord
from tests.integration.staff.site import PASSWORD, Site

ACCOUNTS = "/admin/auth/user/"
NEW_PASSWORD = "staple battery horse correct"


@pytest.fixture
def client(site: Site) -> Client:
    return site.client(is_superuser=True)


@pytest.fixture
def alan(db: None) -> User:
    return User.objects.create_user("alan", password=PASSWORD, is_staff=True)


def page_of(account: User, name: str = "change") -> str:
    return f"{ACCOUNTS}{account.pk}/{name}/"


def add(client: Client, **fields: Any) -> Any:
    body = {"username": "alan", "password1": PASSWORD, "password2": PASSWORD, "is_staff": "on", "reason": "new here"}
    return client.post(f"{ACCOUNTS}add/", {**body, **fields})


def change(client: Client, account: User, **fields: Any) -> Any:
    return client.post(page_of(account), {"is_active": "on", "is_staff": "on", "reason": "new duties", **fields})


def change_password(client: Client, account: User, **fields: Any) -> Any:
    body = {"usable_password": "true", "password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "reason": "forgotten"}
    return client.post(page_of(account, "password"), {**body, **fields})


def delete(client: Client, account: User, **fields: Any) -> Any:
    return client.post(page_of(account, "delete"), {"post": "yes", "reason": "has left", **fields})


def records() -> list[tuple[str, str, str, str, str]]:
    found = AuditRecord.objects.filter(action__endswith="_account")
    return [(one.actor, one.action, one.target, one.reason, one.source) for one in found]


class TestAccounts:
    def test_a_superuser_makes_an_account_of_a_group_which_can_log_in(self, client: Client) -> None:
        assert add(client, groups=[Group.objects.get(name="moderator").pk]).status_code == 302
        assert records() == [("grace", "create_account", "alan", "new here", "127.0.0.1")]
        assert AuditRecord.objects.get(action="create_account").details["groups"] == "moderator"
        browser = Client()
        browser.post("/admin/login/", {"username": "alan", "password": PASSWORD})
        assert browser.get("/admin/people/").status_code == 200
        assert browser.get(ACCOUNTS).status_code == 403

    def test_rights_are_changed(self, client: Client, alan: User) -> None:
        permission = Permission.objects.get(codename="view_engines")
        answer = change(client, alan, groups=[Group.objects.get(name="support").pk], user_permissions=[permission.pk])
        assert answer.status_code == 302
        assert records() == [("grace", "change_account", "alan", "new duties", "127.0.0.1")]
        details = AuditRecord.objects.get(action="change_account").details
        assert (details["changed"], details["groups"]) == ("Groups, User permissions", "support")
        alan = User.objects.get(pk=alan.pk)
        assert alan.has_perms(["staff.view_people", "staff.view_engines"])

    def test_the_name_stays(self, client: Client, alan: User) -> None:
        change(client, alan, username="ada")
        assert User.objects.get(pk=alan.pk).username == "alan"

    def test_an_account_that_is_closed_is_outside_at_once(self, client: Client, alan: User) -> None:
        browser = Client()
        browser.force_login(alan)
        assert browser.get("/admin/").status_code == 200
        change(client, alan, is_active="")
        assert browser.get("/admin/").status_code == 302

    def test_a_password_is_changed_and_not_recorded(self, client: Client, alan: User) -> None:
        assert change_password(client, alan).status_code == 302
        assert User.objects.get(pk=alan.pk).check_password(NEW_PASSWORD)
        assert records() == [("grace", "change_account", "alan", "forgotten", "127.0.0.1")]
        details = AuditRecord.objects.get(action="change_account").details
        assert details["changed"] == "password"
        assert NEW_PASSWORD not in str(details)

    def test_an_account_is_deleted_and_its_name_stays_in_the_log(self, client: Client, alan: User) -> None:
        assert delete(client, alan).status_code == 302
        assert not User.objects.filter(username="alan").exists()
        assert records() == [("grace", "delete_account", "alan", "has left", "127.0.0.1")]

    def test_whoever_changes_their_own_password_is_recorded(self, site: Site) -> None:
        client = site.client("support", username="alan")
        body = {"old_password": "wrong", "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}
        assert client.post("/admin/password_change/", body).status_code == 200
        assert not AuditRecord.objects.filter(action="change_password").exists()
        assert client.post("/admin/password_change/", {**body, "old_password": PASSWORD}).status_code == 302
        assert User.objects.get(username="alan").check_password(NEW_PASSWORD)
        found = AuditRecord.objects.get(action="change_password")
        assert (found.actor, found.target, found.source) == ("alan", "alan", "127.0.0.1")


class TestTheLastSuperuser:
    @pytest.fixture
    def grace(self, client: Client) -> User:
        """The account of `client`, the only superuser."""
        return User.objects.get(username="grace")

    @pytest.mark.parametrize("name", ["is_active", "is_staff", "is_superuser"])
    def test_it_keeps_what_it_needs_to_manage_accounts(self, client: Client, grace: User, name: str) -> None:
        answer = change(client, grace, **{"is_superuser": "on", name: ""})
        assert "Make another account an active superuser" in answer.content.decode()
        assert getattr(User.objects.get(pk=grace.pk), name)
        assert records() == []

    def test_it_is_not_deleted(self, client: Client, grace: User) -> None:
        answer = client.get(delete(client, grace).url)
        assert "Make another account an active superuser" in answer.content.decode()
        assert User.objects.filter(pk=grace.pk).exists()
        assert records() == []

    def test_it_keeps_a_password(self, client: Client, grace: User) -> None:
        answer = change_password(client, grace, usable_password="false")
        assert "Make another account an active superuser" in answer.content.decode()
        assert User.objects.get(pk=grace.pk).has_usable_password()
        assert change_password(client, grace).status_code == 302

    def test_its_other_fields_change(self, client: Client, grace: User) -> None:
        assert change(client, grace, is_superuser="on", first_name="Grace").status_code == 302
        assert User.objects.get(pk=grace.pk).first_name == "Grace"

    @pytest.mark.parametrize("lacks", ["is_active", "is_staff", "is_superuser"])
    def test_an_account_that_cannot_manage_others_is_no_replacement(
        self, client: Client, grace: User, lacks: str
    ) -> None:
        alan = User.objects.create_superuser("alan", password=PASSWORD)
        User.objects.filter(pk=alan.pk).update(**{lacks: False})
        delete(client, grace)
        assert User.objects.filter(pk=grace.pk).exists()

    def test_with_a_second_superuser_the_first_may_leave(self, client: Client, grace: User) -> None:
        User.objects.create_superuser("alan", password=PASSWORD)
        assert change(client, grace, is_superuser="on", is_active="").status_code == 302
        assert not User.objects.get(pk=grace.pk).is_active


class TestReasons:
    @pytest.mark.parametrize("reason", ["", "   ", "x" * 1001])
    def test_without_one_nothing_is_done(self, client: Client, alan: User, reason: str) -> None:
        add(client, username="new", reason=reason)
        change(client, alan, is_superuser="on", reason=reason)
        change_password(client, alan, reason=reason)
        delete(client, alan, reason=reason)
        assert not User.objects.filter(username="new").exists()
        unchanged = User.objects.get(pk=alan.pk)
        assert not unchanged.is_superuser
        assert unchanged.check_password(PASSWORD)
        assert records() == []


class TestPages:
    def test_only_superusers_see_them_whatever_permissions_others_have(self, site: Site, alan: User) -> None:
        client = site.client("operator", username="operator")
        operator = User.objects.get(username="operator")
        operator.user_permissions.set(Permission.objects.filter(content_type__app_label="auth"))
        assert ACCOUNTS not in client.get("/admin/").content.decode()
        for page in (ACCOUNTS, f"{ACCOUNTS}add/", *(page_of(alan, name) for name in ("change", "password", "delete"))):
            assert client.get(page).status_code == 403
        for answer in (add(client, username="new"), change(client, alan), delete(client, alan)):
            assert answer.status_code == 403
        assert change_password(client, alan).status_code == 403
        assert records() == []

    def test_the_menu_of_a_superuser_shows_accounts_and_no_groups(self, client: Client) -> None:
        menu = client.get("/admin/").content.decode()
        assert ACCOUNTS in menu
        assert client.get("/admin/auth/group/").status_code == 404

    def test_they_need_no_inline_scripts_or_styles_and_ask_for_a_reason(self, client: Client, alan: User) -> None:
        for page in (ACCOUNTS, f"{ACCOUNTS}add/", *(page_of(alan, name) for name in ("change", "password", "delete"))):
            answer = client.get(page)
            assert answer.status_code == 200
            assert "unsafe" not in answer["Content-Security-Policy"]
            text = answer.content.decode()
            assert not re.search(r"<script>|<style|\sstyle=|\son[a-z]+=|javascript:", text)
            assert page == ACCOUNTS or 'name="reason"' in text
