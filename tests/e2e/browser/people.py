"""Page objects: a person with a logged-in browser, and a tab of the web client."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from playwright._impl._api_structures import OriginState
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect

from tests.e2e.system import Device, System, Web

TIMEOUT_MS = 15_000
DESKTOP, PHONE = (1100, 720), (390, 844)
expect.set_options(timeout=TIMEOUT_MS)


@dataclass
class Tab:
    """A page of the web client. `errors` has its script errors and policy violations."""

    page: Page
    url: str
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(TIMEOUT_MS)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._console)

    def open(self, path: str = "") -> "Tab":
        """Navigate, also if only the hash differs."""
        self.page.goto(f"{self.url}/{path}")
        return self

    def open_chat(self, chat_id: str) -> "Tab":
        return self.open(f"#/chat/{chat_id}")

    def write(self, text: str) -> None:
        self.page.get_by_label("Message", exact=True).fill(text)
        self.page.keyboard.press("Enter")

    @property
    def messages(self) -> Locator:
        """The texts of the messages, top to bottom."""
        return self.page.locator(".message .text")

    @property
    def banner(self) -> Locator:
        return self.page.locator(".banner")

    def message(self, text: str) -> Locator:
        """The messages with this in their text, quotes left aside."""
        return self.page.locator(".message").filter(
            has=self.page.locator(".text", has_text=re.compile(re.escape(text)))
        )

    def row(self, title: str) -> Locator:
        return self.page.locator(".chat-row").filter(has=self.page.get_by_text(title, exact=True))

    def choose(self, text: str, action: str) -> None:
        """Open the menu of the message with this text and choose an action or an emoji."""
        message = self.message(text).last
        message.hover()
        message.get_by_role("button", name=re.compile("^Actions for")).click()
        self.page.get_by_role("menu").get_by_text(action, exact=True).click()

    def picture(self) -> list[str]:
        """What a person sees of the conversation: each line, without times and ticks."""
        script = """all => all.map(one => {
            const copy = one.cloneNode(true);
            const left = "time, .icon, .sr-only, .avatar, .sender, .message-menu-button";
            copy.querySelectorAll(left).forEach(part => part.remove());
            return copy.innerText.trim();
        })"""
        lines: list[str] = self.page.locator(".messages > .message, .messages > .event").evaluate_all(script)
        return [re.sub(r"\s+", " ", line) for line in lines]

    def expect_messages(self, texts: Sequence[str]) -> None:
        expect(self.messages).to_have_text(list(texts))

    def expect_state(self, text: str, state: str) -> None:
        expect(self.message(text)).to_have_attribute("data-state", state)

    def expect_stored(self, text: str) -> None:
        """The server has the message, whoever else has got it."""
        expect(self.message(text)).to_have_attribute("data-state", re.compile("sent|delivered|read"))

    def sequences(self) -> list[int]:
        """The sequences of the messages. A message without one is being sent: wait until there is none."""
        expect(self.page.locator("[data-state=sending]")).to_have_count(0)
        found: list[str] = self.page.locator(".message").evaluate_all("all => all.map(one => one.dataset.sequence)")
        return [int(sequence) for sequence in found]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and "Content Security Policy" in message.text:
            self.errors.append(message.text)


@dataclass
class Person:
    """A user with a browser context of their own, logged in."""

    name: str
    device: Device
    context: BrowserContext
    url: str
    tabs: list[Tab] = field(default_factory=list)

    def tab(self) -> Tab:
        tab = Tab(self.context.new_page(), self.url)
        self.tabs.append(tab)
        return tab


def log_in(
    name: str,
    *,
    system: System,
    web: Web,
    browser: Browser,
    device: Device | None = None,
    screen: tuple[int, int] = DESKTOP,
) -> Person:
    """Create a user, unless `device` has one, and open their browser on one of the system's gateways."""
    device = device or system.user()
    user = system.rest(device, "PATCH", "/api/users/me", display_name=name)
    login = {
        "user": user,
        "session_id": device.session_id,
        "access_token": device.token,
        "refresh_token": "none",
        "expires_in": 900,
    }
    return open_browser(name, device, login, url=web.url, browser=browser, screen=screen)


def open_browser(
    name: str,
    device: Device,
    login: Mapping[str, object],
    *,
    url: str,
    browser: Browser,
    screen: tuple[int, int] = DESKTOP,
) -> Person:
    """Open a browser context whose storage has `login`, the answer to a login, in the page's own format."""
    session = json.dumps({**login, "expires_at": 4_102_444_800_000})
    origin: OriginState = {"origin": url, "localStorage": [{"name": "parley.session", "value": session}]}
    context = browser.new_context(
        viewport={"width": screen[0], "height": screen[1]},
        has_touch=screen == PHONE,
        reduced_motion="reduce",
        storage_state={"cookies": [], "origins": [origin]},
    )
    return Person(name, device, context, url)
