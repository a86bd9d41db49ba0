"""The admin pages in a browser: log in with a code, find a person by phone, revoke, and see the socket close."""

import base64
import os
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit

import pytest
from django_otp.oath import TOTP
from playwright.sync_api import Browser, expect

from engines.processes import PROJECT_ROOT
from tests.e2e.browser.conftest import NewPerson
from tests.e2e.browser.people import Tab
from tests.e2e.system import System

PASSWORD = "correct horse battery staple"


def manage(system: System, *arguments: str) -> str:
    environment = {**os.environ, **system._environment, "DJANGO_SUPERUSER_PASSWORD": PASSWORD}
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(
        command, env=environment, cwd=PROJECT_ROOT, timeout=60, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def code(system: System) -> str:
    """The one-time code of the new superuser grace."""
    manage(system, "migrate", "--verbosity", "0")
    manage(system, "createsuperuser", "--noinput", "--username", "grace", "--email", "grace@example.org")
    uri = manage(system, "staff_totp", "grace").strip()
    secret = parse_qs(urlsplit(uri).query)["secret"][0]
    return f"{TOTP(base64.b32decode(secret)).token():06d}"


def test_staff_finds_a_person_by_phone_and_revokes_a_session(
    browser: Browser, system: System, new_person: NewPerson, code: str
) -> None:
    ann = new_person("Ann")
    client = ann.tab().open()
    expect(client.page.get_by_text("Ann").first).to_be_visible()
    phone_number = system.rest(ann.device, "GET", "/api/users/me")["phone_number"]

    staff = Tab(browser.new_context(viewport={"width": 1100, "height": 900}).new_page(), system.webs[0].url)
    page = staff.open("admin/").page
    page.get_by_label("Username").fill("grace")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator(".errornote")).to_be_visible()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("One-time code").fill(code)
    page.get_by_role("button", name="Log in").click()

    page.get_by_role("link", name="People", exact=True).first.click()
    page.get_by_label("Id or phone number").fill(phone_number)
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name="Ann").click()
    erase = page.get_by_role("button", name="Erase for ever")
    expect(erase, "its text is white").not_to_have_css("background-color", "rgba(0, 0, 0, 0)")
    session = page.get_by_role("row").filter(has_text=ann.device.session_id)
    session.get_by_label("Reason").fill("the phone was stolen")
    session.get_by_role("button", name="Revoke").click()
    expect(page.locator(".messagelist")).to_contain_text("was revoked")
    expect(client.page.get_by_text("This device was logged out")).to_be_visible()

    page.get_by_role("link", name="Audit log", exact=True).first.click()
    expect(page.get_by_role("row").filter(has_text="the phone was stolen")).to_contain_text("revoke_session")
    assert staff.errors == []
    page.context.close()
