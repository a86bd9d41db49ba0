"""The web client: login, groups, devices, markup and accessibility."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browser.conftest import NewPerson, people_in_browsers
from tests.e2e.browser.people import Person, Tab
from tests.e2e.system import System

LOW_CONTRAST_TEXTS = (Path(__file__).parent / "low_contrast_texts.js").read_text()
MARKUP = "<img src=x onerror=alert(1)><b>bold</b> & <script>alert(2)</script>"


class TestLoggingIn:
    def test_by_phone_and_code(self, browser: Browser, system: System, data_dir: Path) -> None:
        context = browser.new_context()
        tab = Tab(context.new_page(), system.webs[0].url).open()
        page = tab.page
        page.get_by_label("Phone number").fill("0049 151 2000 0001")
        page.get_by_role("button", name="Send code").click()
        expect(page.get_by_text("printed in the terminal")).to_be_visible()
        page.get_by_label("Code").fill(latest_code(data_dir))
        page.get_by_label("Your name").fill("Grace")
        page.get_by_role("button", name="Start").click()
        expect(page.locator(".me")).to_contain_text("Grace")
        page.reload()
        expect(page.locator(".me")).to_contain_text("Grace")
        assert tab.errors == []
        context.close()

    def test_a_wrong_code_is_reported_at_the_field(self, browser: Browser, system: System, data_dir: Path) -> None:
        context = browser.new_context()
        page = Tab(context.new_page(), system.webs[0].url).open().page
        page.get_by_label("Phone number").fill("12345")
        page.get_by_role("button", name="Send code").click()
        expect(page.locator(".field-error")).to_contain_text("E.164")
        page.get_by_label("Phone number").fill("+4915120000002")
        page.get_by_role("button", name="Send code").click()
        expect(page.get_by_label("Code")).to_be_visible()
        wrong = "111111" if latest_code(data_dir) != "111111" else "222222"
        page.get_by_label("Code").fill(wrong)
        expect(page.locator(".field-error")).not_to_be_empty()
        context.close()

    def test_as_a_person_of_the_demo(self, browser: Browser, system: System) -> None:
        context = browser.new_context()
        tab = Tab(context.new_page(), system.webs[0].url).open()
        tab.page.get_by_role("button", name="Try the demo").click()
        tab.page.get_by_role("button", name="Ada Moreau").click()
        expect(tab.row("Ben Okafor").locator(".badge")).to_have_text("2")
        expect(tab.page).to_have_title("(2) Parley")
        tab.row("Weekend in the Alps").click()
        expect(tab.messages).to_have_count(11)
        assert tab.errors == []
        context.close()


class TestGroups:
    def test_a_group_is_made_changed_and_left(self, system: System, new_person: NewPerson) -> None:
        ada, ben = new_person("Ada"), new_person("Ben")
        hers, his = ada.tab().open(), ben.tab().open()
        phone_number = system.rest(ben.device, "GET", "/api/users/me")["phone_number"]
        page = hers.page
        page.get_by_role("button", name="New chat").click()
        page.get_by_text("Group", exact=True).click()
        page.get_by_label("Group name").fill("Sailors")
        page.get_by_label("Add people by phone number").fill(phone_number)
        page.get_by_role("button", name="Add", exact=True).click()
        expect(page.locator(".chip")).to_contain_text("Ben")
        page.get_by_role("button", name="Create group").click()
        expect(page.get_by_role("heading", name="Sailors")).to_be_visible()
        his.row("Sailors").click()

        hers.page.get_by_role("button", name="About this chat").last.click()
        page.get_by_label("Group name").fill("Old sailors")
        page.get_by_role("button", name="Rename").click()
        expect(hers.row("Old sailors")).to_be_visible()
        page.get_by_label("Role of Ben").select_option("admin")
        expect(page.get_by_label("Role of Ben")).to_have_value("admin")
        page.get_by_label("Mute").select_option("For an hour")
        expect(hers.row("Old sailors").get_by_label("Muted")).to_be_attached()

        his.page.get_by_role("button", name="About this chat").last.click()
        expect(his.page.locator(".member")).to_have_count(2)
        his.page.get_by_role("button", name="Leave group").click()
        his.page.get_by_role("button", name="Leave", exact=True).click()
        expect(his.page.locator(".chat-row")).to_have_count(0)
        expect(page.locator(".member")).to_have_count(1)

    def test_a_direct_chat_is_made_by_phone_number(self, system: System, new_person: NewPerson) -> None:
        ada, ben = new_person("Ada"), new_person("Ben")
        hers, his = ada.tab().open(), ben.tab().open()
        hers.page.get_by_role("button", name="New chat").click()
        hers.page.get_by_label("Phone number").fill("+4915199999999")
        hers.page.get_by_role("button", name="Start chat").click()
        expect(hers.page.locator("dialog .field-error")).not_to_be_empty()
        hers.page.get_by_label("Phone number").fill(system.rest(ben.device, "GET", "/api/users/me")["phone_number"])
        hers.page.get_by_role("button", name="Start chat").click()
        hers.write("Found you")
        expect(his.row("Ada")).to_contain_text("Found you")


class TestDevices:
    def test_a_revoked_device_is_logged_out_at_once(self, system: System, new_person: NewPerson) -> None:
        phone = new_person("Ada")
        laptop = new_person("Ada", device=system.another_device(phone.device))
        lost, safe = phone.tab().open(), laptop.tab().open("#/settings")
        expect(safe.page.locator(".device")).to_have_count(2)
        safe.page.locator(f"[data-session='{phone.device.session_id}']").get_by_role("button").click()
        expect(safe.page.locator(".device")).to_have_count(1)
        expect(lost.page.get_by_text("This device was logged out")).to_be_visible()
        assert lost.page.evaluate("localStorage.getItem('parley.session')") is None


class TestMarkup:
    def test_markup_in_names_and_messages_is_shown_as_text(self, system: System, new_person: NewPerson) -> None:
        mallory, ada = new_person(MARKUP), new_person("Ada")
        body = {"type": "group", "name": MARKUP, "members": [ada.device.user_id]}
        chat_id = system.rest(mallory.device, "POST", "/api/chats", **body)["chat_id"]
        direct = system.direct_chat(mallory.device, ada.device)
        for chat in (chat_id, direct):
            system.rest(mallory.device, "POST", f"/api/chats/{chat}/messages", client_message_id=chat, content=MARKUP)
        hers = ada.tab().open_chat(chat_id)
        expect(hers.page.get_by_role("heading", name=MARKUP)).to_be_visible()
        hers.expect_messages([MARKUP])
        expect(hers.page.locator(".sender")).to_have_text(MARKUP)
        expect(hers.page.locator(".chat-title")).to_have_text([MARKUP, MARKUP])
        hers.page.get_by_role("button", name="About this chat").last.click()
        expect(hers.page.locator(".member-name").first).to_contain_text(MARKUP)
        assert hers.page.locator("#app img, #app b, #app script, dialog img, dialog b").count() == 0

    def test_a_web_address_becomes_a_link_and_nothing_else(self, system: System, new_person: NewPerson) -> None:
        ada, ben = new_person("Ada"), new_person("Ben")
        chat_id = system.direct_chat(ada.device, ben.device)
        hers = ada.tab().open_chat(chat_id)
        hers.write("see https://example.org/a?b=c. or javascript:alert(1)")
        links = hers.page.locator(".text a")
        expect(links).to_have_count(1)
        expect(links).to_have_attribute("href", "https://example.org/a?b=c")
        expect(links).to_have_attribute("rel", "noopener noreferrer nofollow")


@pytest.fixture(scope="class")
def busy_tab(system: System, browser: Browser) -> Iterator[tuple[Tab, str]]:
    """A tab with a group, a direct chat and messages, and the id of the open chat."""
    with people_in_browsers(browser, system) as new_person:
        ada, ben = new_person("Ada"), new_person("Ben Okafor")
        body = {"type": "group", "name": "Sailors", "members": [ada.device.user_id]}
        chat_id = system.rest(ben.device, "POST", "/api/chats", **body)["chat_id"]
        system.direct_chat(ada.device, ben.device)
        system.rest(ben.device, "POST", f"/api/chats/{chat_id}/messages", client_message_id="1", content="Ahoy " * 40)
        change_everything(system, ben, ada, chat_id)
        tab = ada.tab().open_chat(chat_id)
        tab.write("Aye, @Ben Okafor and `code`")
        tab.expect_stored("Aye")
        yield tab, chat_id


def change_everything(system: System, ben: Person, ada: Person, chat_id: str) -> None:
    """A reply with a mention, an edit, reactions, a deletion and a pin."""

    def send(person: Person, number: int, **fields: Any) -> None:
        body = {"client_message_id": f"busy {number}".replace(" ", "-"), **fields}
        system.rest(person.device, "POST", f"/api/chats/{chat_id}/messages", **body)

    entries = f"/api/chats/{chat_id}/messages"
    send(ben, 2, content="@Ada, **look** at `this`", reply_to=1, mentions=[ada.device.user_id])
    send(ada, 3, content="Nothing", reply_to=2)
    send(ben, 4, content="Gone")
    system.rest(ben.device, "PATCH", f"{entries}/2", client_message_id="edit", content="@Ada, _look_ at `that`")
    for person in (ada, ben):
        system.rest(person.device, "PUT", f"{entries}/2/reactions/👍")
    system.rest(ben.device, "PUT", f"{entries}/3/reactions/👍")
    system.rest(ben.device, "DELETE", f"{entries}/4")
    system.rest(ben.device, "PUT", f"/api/chats/{chat_id}/pins/1")


@pytest.fixture
def busy_page(busy_tab: tuple[Tab, str]) -> Page:
    """Reset: only the chat open, laptop viewport."""
    tab, chat_id = busy_tab
    tab.page.set_viewport_size({"width": 1100, "height": 720})
    tab.open_chat(chat_id)
    tab.page.evaluate("document.querySelectorAll('dialog').forEach(dialog => dialog.close())")
    for title in ("Ben Okafor", "Sailors"):
        expect(tab.row(title)).to_be_visible()
    return tab.page


class TestAccessibility:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_every_text_has_enough_contrast(self, busy_page: Page, scheme: str) -> None:
        busy_page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert busy_page.evaluate(LOW_CONTRAST_TEXTS) == []
        busy_page.get_by_role("button", name="About this chat").last.click()
        expect(busy_page.locator(".member")).to_have_count(2)
        assert busy_page.evaluate(LOW_CONTRAST_TEXTS) == []

    def test_the_theme_button_overrides_the_system(self, busy_page: Page) -> None:
        background = "getComputedStyle(document.body).backgroundColor"
        busy_page.emulate_media(color_scheme="light")
        light = busy_page.evaluate(background)
        busy_page.get_by_role("button", name="Switch between light and dark").click()
        assert busy_page.evaluate(background) != light
        busy_page.reload()
        assert busy_page.evaluate(background) != light
        busy_page.get_by_role("button", name="Switch between light and dark").click()
        assert busy_page.evaluate(background) == light

    def test_every_control_has_a_name(self, busy_page: Page) -> None:
        busy_page.get_by_role("button", name="About this chat").last.click()
        expect(busy_page.locator(".member")).to_have_count(2)
        nameless = busy_page.locator("button, a, input, textarea, select").evaluate_all(
            "all => all.filter(one => !(one.ariaLabel || one.textContent.trim() || one.labels?.length)).length"
        )
        assert nameless == 0

    def test_everything_works_by_keyboard(self, busy_page: Page) -> None:
        busy_page.get_by_label("Find a chat").focus()
        busy_page.keyboard.press("Tab")
        busy_page.keyboard.press("ArrowDown")
        busy_page.keyboard.press("Enter")
        expect(busy_page.get_by_role("heading", name="Ben Okafor")).to_be_visible()
        busy_page.keyboard.type("typed")
        busy_page.keyboard.press("Shift+Enter")
        busy_page.keyboard.type("blind")
        busy_page.keyboard.press("Enter")
        expect(busy_page.locator(".message .text")).to_have_text("typed\nblind", use_inner_text=True)

    def test_a_phone_shows_one_pane_and_does_not_scroll_sideways(self, busy_page: Page) -> None:
        busy_page.set_viewport_size({"width": 360, "height": 640})
        overflow = "document.documentElement.scrollWidth - innerWidth"
        expect(busy_page.locator(".sidebar")).to_be_hidden()
        assert busy_page.evaluate(overflow) <= 0
        busy_page.get_by_label("Back to the chats").click()
        expect(busy_page.locator(".sidebar")).to_be_visible()
        expect(busy_page.locator(".conversation")).to_be_hidden()
        assert busy_page.evaluate(overflow) <= 0
        busy_page.locator(".me").click()
        expect(busy_page.get_by_role("heading", name="Settings")).to_be_visible()
        assert busy_page.evaluate(overflow) <= 0


def latest_code(data_dir: Path) -> str:
    return str(json.loads((data_dir / "sms.jsonl").read_text().splitlines()[-1])["code"])
