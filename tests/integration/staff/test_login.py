"""Logging in to the admin pages: the second factor, the limit of attempts, and what is recorded of it."""

import itertools
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client, override_settings
from django_otp.oath import TOTP
from django_otp.plugins.otp_totp.models import TOTPDevice

from config.wiring.staff import staff_services_of
from config.wiring.web import Web
from foundation.stores.errors import StoreUnavailable
from staff.models import AuditRecord
from staff.services import login_attempts
from tests.integration.staff.site import PASSWORD, Site, staff_urls

_names = (f"grace{number}" for number in itertools.count())
_addresses = (f"192.0.2.{number}" for number in range(1, 255))


@pytest.fixture
def name(db: None) -> str:
    """A superuser's name, new in every test, because Redis remembers attempts."""
    return User.objects.create_superuser(next(_names), password=PASSWORD).username


@pytest.fixture
def stranger() -> Client:
    """A browser with an address of its own, which has made no attempts."""
    return Client(REMOTE_ADDR=next(_addresses))


@pytest.fixture
def strict(staff_web: Web) -> Iterator[None]:
    """As in production: nobody enters without a second factor."""
    with override_settings(ROOT_URLCONF=staff_urls(staff_web, requires_totp=True)):
        yield


def log_in(client: Client, name: str, *, password: str = PASSWORD, token: str = "") -> bool:
    answer = client.post("/admin/login/", {"username": name, "password": password, "otp_token": token})
    assert answer.status_code in (200, 302)
    return answer.status_code == 302


def token_of(device: TOTPDevice) -> str:
    return f"{TOTP(device.bin_key).token():06d}"


def is_inside(client: Client) -> bool:
    return client.get("/admin/people/").status_code == 200


def refusals(name: str) -> list[str]:
    """Why logins to this account were refused, by the audit log, oldest first."""
    found = AuditRecord.objects.filter(actor=name, target=name, action="log_in_failed")
    return list(found.order_by("pk").values_list("reason", flat=True))


class TestPassword:
    def test_without_a_device_a_password_is_enough_where_codes_are_optional(self, site: Site, name: str) -> None:
        client = Client()
        assert not log_in(client, name, password="wrong")
        assert not is_inside(client)
        assert log_in(client, name)
        assert is_inside(client)

    def test_an_account_that_is_not_staff_stays_outside(self, site: Site) -> None:
        User.objects.create_user("mallory", password=PASSWORD)
        assert not log_in(Client(), "mallory")


class TestSecondFactor:
    def test_whoever_has_a_device_needs_its_code_even_where_it_is_optional(self, site: Site, name: str) -> None:
        device = TOTPDevice.objects.create(user=User.objects.get(username=name))
        client = Client()
        assert not log_in(client, name)
        assert not log_in(client, name, token="000000")
        TOTPDevice.objects.update(throttling_failure_count=0)
        assert log_in(client, name, token=token_of(device))
        assert is_inside(client)

    def test_a_code_works_once(self, site: Site, name: str) -> None:
        device = TOTPDevice.objects.create(user=User.objects.get(username=name))
        token = token_of(device)
        assert log_in(Client(), name, token=token)
        assert not log_in(Client(), name, token=token)

    def test_where_it_is_required_an_account_without_a_device_sees_only_the_enrolment(
        self, site: Site, strict: None, name: str
    ) -> None:
        client = Client()
        assert log_in(client, name)
        assert not is_inside(client)
        answer = client.get("/admin/people/", follow=True)
        assert answer.redirect_chain[-1][0] == "/admin/totp/"
        assert "otpauth://totp/" in answer.content.decode()
        assert "<svg" in answer.content.decode()

    def test_an_enrolment_is_confirmed_by_a_code_and_lets_in(self, site: Site, strict: None, name: str) -> None:
        client = Client()
        log_in(client, name)
        client.get("/admin/totp/")
        device = TOTPDevice.objects.get(user__username=name)
        assert client.post("/admin/totp/", {"otp_token": "000000"}).status_code == 200
        assert not is_inside(client)
        TOTPDevice.objects.update(throttling_failure_count=0)
        assert client.post("/admin/totp/", {"otp_token": token_of(device)}).status_code == 302
        assert is_inside(client)
        assert AuditRecord.objects.filter(action="enrol_device", actor=name).exists()

    def test_where_it_is_optional_a_link_leads_accounts_without_a_device_to_the_enrolment(
        self, site: Site, name: str
    ) -> None:
        client = Client()
        log_in(client, name)
        for page in ("/admin/", "/admin/people/"):
            assert 'href="/admin/totp/"' in client.get(page).content.decode()
        assert "otpauth://totp/" in client.get("/admin/totp/").content.decode()
        device = TOTPDevice.objects.get(user__username=name)
        assert client.post("/admin/totp/", {"otp_token": token_of(device)}).status_code == 302
        for page in ("/admin/", "/admin/people/"):
            answer = client.get(page)
            assert answer.status_code == 200
            assert 'href="/admin/totp/"' not in answer.content.decode()

    def test_two_keys_that_tabs_made_at_once_are_one_enrolment(self, site: Site, strict: None, name: str) -> None:
        client, user = Client(), User.objects.get(username=name)
        log_in(client, name)
        first, _ = [TOTPDevice.objects.create(user=user, confirmed=False) for _ in range(2)]
        assert client.get("/admin/totp/").context["uri"] == first.config_url
        assert client.post("/admin/totp/", {"otp_token": token_of(first)}).status_code == 302
        assert is_inside(client)
        assert TOTPDevice.objects.get(user=user) == first

    def test_strangers_cannot_enrol(self, site: Site, strict: None) -> None:
        assert Client().get("/admin/totp/").status_code == 302
        assert not TOTPDevice.objects.exists()

    def test_the_command_prints_an_address_whose_codes_let_in(
        self, site: Site, strict: None, name: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        call_command("staff_totp", name)
        first = capsys.readouterr().out.strip()
        assert parse_qs(urlsplit(first).query)["issuer"] == ["Parley"]
        call_command("staff_totp", name)
        assert capsys.readouterr().out.strip() == first
        client = Client()
        assert log_in(client, name, token=token_of(TOTPDevice.objects.get(user__username=name)))
        assert is_inside(client)
        call_command("staff_totp", name, new=True)
        assert capsys.readouterr().out.strip() != first
        assert not is_inside(client)


class TestAttempts:
    def test_an_account_is_closed_for_a_while_after_too_many(self, site: Site, name: str) -> None:
        for _ in range(login_attempts.PER_ACCOUNT.burst):
            log_in(Client(), name, password="wrong")
        answer = Client().post("/admin/login/", {"username": name, "password": PASSWORD})
        assert answer.status_code == 200
        assert "Too many attempts" in answer.content.decode()

    def test_logins_that_succeed_do_not_count(self, site: Site, name: str) -> None:
        assert all(log_in(Client(), name) for _ in range(login_attempts.PER_ACCOUNT.burst + 1))

    def test_without_redis_nobody_logs_in(self, site: Site, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def away(*_: object) -> None:
            raise StoreUnavailable("no Redis")

        monkeypatch.setattr(staff_services_of(site.web).attempts._limiter, "take_all", away)
        assert not log_in(Client(), name)


class TestRecords:
    def test_logins_logouts_and_refusals_are_in_the_audit_log(self, site: Site, name: str) -> None:
        client = Client()
        log_in(client, name, password="wrong")
        log_in(client, name)
        client.post("/admin/logout/")
        actions = list(AuditRecord.objects.filter(actor=name).values_list("action", flat=True))
        assert actions == ["log_out", "log_in", "log_in_failed"]

    def test_a_right_password_without_its_code_or_without_staff_status_is_recorded(
        self, site: Site, stranger: Client, name: str
    ) -> None:
        TOTPDevice.objects.create(user=User.objects.get(username=name))
        log_in(stranger, name)
        log_in(stranger, name, token="000000")
        User.objects.create_user(mallory := f"{name}-mallory", password=PASSWORD)
        log_in(stranger, mallory)
        assert refusals(name) == ["a password without the one-time code"] * 2
        assert refusals(mallory) == ["the password of an account that is not staff"]

    def test_of_attempts_over_the_limit_only_the_first_is_recorded(
        self, site: Site, stranger: Client, name: str
    ) -> None:
        for _ in range(login_attempts.PER_ACCOUNT.burst + 5):
            log_in(stranger, name, password="wrong")
        recorded = refusals(name)
        assert recorded[:-1] == ["wrong name or password"] * login_attempts.PER_ACCOUNT.burst
        assert recorded[-1].startswith("too many attempts")

    def test_a_form_without_a_password_is_no_attempt(self, site: Site, stranger: Client, name: str) -> None:
        log_in(stranger, name, password="")
        assert refusals(name) == []

    def test_the_cookie_is_for_the_admin_pages_alone(self, site: Site, name: str) -> None:
        client = Client()
        log_in(client, name)
        cookie = client.cookies[settings.SESSION_COOKIE_NAME]
        assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == ("/admin/", True, "Strict")


def test_a_refusal_names_all_that_may_be_wrong_and_the_same_each_time(site: Site, name: str, stranger: Client) -> None:
    TOTPDevice.objects.create(user=User.objects.get(username=name), name="app", confirmed=True)
    said = {
        stranger.post("/admin/login/", {"username": name, "password": password}).content.decode().count("one-time code")
        for password in (PASSWORD, "another")
    }
    assert said == {1}
