"""`python -m demo.screenshots`: takes the documents' screenshots of the demo in a fresh `manage.py dev`."""

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "screenshots"
READY = re.compile(r"Parley is ready on (\S+)")
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
MAX_BYTES = 300_000


def main() -> None:
    """Exits with an error message if Chromium is missing or a picture is larger than `MAX_BYTES`."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("Chromium is not installed: apt-get install chromium")
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, dev_server(directory) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=OPTIONS)
        for path in (
            take_laptop(browser, url, "light"),
            take_laptop(browser, url, "dark"),
            take_phone(browser, url),
            take_admin(browser, url, directory),
        ):
            sys.stdout.write(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KB\n")
            if path.stat().st_size > MAX_BYTES:
                sys.exit(f"{path.name} is larger than {MAX_BYTES} bytes")
        browser.close()


@contextlib.contextmanager
def dev_server(directory: str) -> Iterator[str]:
    """Run `manage.py dev` on a free port with this data directory; yields its URL."""
    command = [sys.executable, "manage.py", "dev", "--port", "0", "--data-dir", directory]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own command
    try:
        yield _wait_until_ready(process)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _wait_until_ready(process: "subprocess.Popen[str]") -> str:
    for line in process.stdout or ():
        if match := READY.search(line):
            return match[1]
    sys.exit("manage.py dev ended before it was ready")


def take_laptop(browser: Browser, url: str, scheme: str) -> Path:
    """A group with unread messages and a message being typed, beside the list of chats."""
    dark = scheme == "dark"
    context = browser.new_context(
        viewport={"width": 1200, "height": 760},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        locale="en-GB",
    )
    page = context.new_page()
    page.goto(url)
    page.get_by_role("button", name="Try the demo").click()
    page.get_by_role("button", name="Emi Tanaka" if dark else "Ada Moreau").click()
    page.get_by_role("link", name="Weekend in the Alps").click()
    page.locator(".message").last.wait_for()
    page.get_by_text("5 members").wait_for()
    page.get_by_label("Message", exact=True).fill("See you at the station!" if dark else "7:32 it is. Do not oversleep")
    path = TARGET / f"{scheme}.png"
    page.screenshot(path=path)
    context.close()
    return path


def take_phone(browser: Browser, url: str) -> Path:
    """A direct chat on a narrow screen."""
    context = browser.new_context(
        viewport={"width": 360, "height": 720}, device_scale_factor=2, is_mobile=True, has_touch=True, locale="en-GB"
    )
    page = context.new_page()
    page.goto(url)
    page.get_by_role("button", name="Try the demo").click()
    page.get_by_role("button", name="Ben Okafor").click()
    page.get_by_role("link", name="Ada Moreau").click()
    page.locator(".message").last.wait_for()
    path = TARGET / "phone.png"
    page.screenshot(path=path)
    context.close()
    return path


def take_admin(browser: Browser, url: str, directory: str) -> Path:
    """The staff's page of somebody who is connected."""
    password = secrets.token_urlsafe()
    environment = {**os.environ, "DATA_DIR": directory, "DJANGO_SUPERUSER_PASSWORD": password}
    account = ["--noinput", "--username", "grace", "--email", "grace@example.org"]
    command = [sys.executable, "manage.py", "createsuperuser", *account]
    subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - our own
    context = browser.new_context(viewport={"width": 1180, "height": 760}, locale="en-GB")
    person, page = context.new_page(), context.new_page()
    person.goto(url)
    person.get_by_role("button", name="Try the demo").click()
    person.get_by_role("button", name="Chiara Lind").click()
    person.get_by_role("link", name="Weekend in the Alps").wait_for()
    page.goto(f"{url}/admin/")
    page.get_by_label("Username").fill("grace")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("link", name="People", exact=True).first.click()
    page.get_by_label("Id or phone number").fill("+12025550112")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name="Chiara Lind").click()
    page.get_by_text("gw-").first.wait_for()
    path = TARGET / "admin.png"
    page.screenshot(path=path)
    context.close()
    return path


if __name__ == "__main__":
    main()
