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


PHONE, DESKTOP = (390, 844), (1280, 900)
MODULES = "[...document.querySelectorAll('.module')]"


@pytest.mark.parametrize("screen", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_pages_fit_the_window_and_messages_have_room(
    browser: Browser, system: System, new_person: NewPerson, screen: tuple[int, int]
) -> None:
    ann, ben = new_person("Ann"), new_person("Ben")
    chat = system.group(ann.device, [ben.device])
    manage(system, "migrate", "--verbosity", "0")
    name = f"lin{screen[0]}"
    manage(system, "createsuperuser", "--noinput", "--username", name, "--email", "lin@example.org")
    text = "a word " * 40
    system.rest(ann.device, "POST", f"/api/chats/{chat}/messages", client_message_id="1", content=text)

    staff = Tab(browser.new_context(viewport={"width": screen[0], "height": screen[1]}).new_page(), system.webs[0].url)
    page = staff.open("admin/").page
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    person = f"people/{ann.device.user_id}/"
    for path in (
        "people/?q=x",
        person,
        "connections/",
        "engines/",
        "audit/",
        "auth/user/1/delete/",
        "totp/",
        f"chats/{chat}/",
    ):
        page = staff.open(f"admin/{path}").page
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        if screen[0] > PHONE[0]:  # where a table may be wider, and scrolls
            assert page.evaluate(f"{MODULES}.every(each => each.scrollWidth <= each.clientWidth)"), path
    box = page.locator("td.staff-content").first.bounding_box()
    assert box is not None
    assert box["width"] > 180
    assert staff.errors == []
    page.context.close()
