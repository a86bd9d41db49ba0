"""Replies, edits, deletions, reactions, pins, mentions and notices, live between two browsers."""

import re

import pytest
from playwright.sync_api import expect

from foundation.kernel.ids import ChatId
from tests.e2e.browser.conftest import NewPerson
from tests.e2e.browser.people import Person, Tab
from tests.e2e.system import System


@pytest.fixture
def chat_id(system: System, ada: Person, ben: Person) -> ChatId:
    return system.group(ada.device, [ben.device])


@pytest.fixture
def tabs(ada: Person, ben: Person, chat_id: ChatId) -> tuple[Tab, Tab]:
    """Both have the chat open, with a message of each."""
    hers, his = ada.tab().open_chat(chat_id), ben.tab().open_chat(chat_id)
    hers.write("from Ada")
    expect(his.messages).to_have_count(1)
    his.write("from Ben")
    expect(hers.messages).to_have_count(2)
    return hers, his


class TestChanges:
    def test_a_reply_quotes_and_jumps(self, tabs: tuple[Tab, Tab]) -> None:
        hers, his = tabs
        his.choose("from Ada", "Reply")
        his.write("an answer")
        reply = hers.message("an answer")
        expect(reply.locator(".quote-name")).to_have_text("You")
        expect(reply.locator(".quote-text")).to_have_text("from Ada")
        reply.get_by_role("button", name=re.compile("^In reply to")).click()
        expect(hers.page.locator(".message").first).to_be_focused()

    def test_an_edit_by_the_arrow_key(self, tabs: tuple[Tab, Tab]) -> None:
        hers, his = tabs
        box = hers.page.get_by_label("Message", exact=True)
        box.focus()
        hers.page.keyboard.press("ArrowUp")
        expect(box).to_have_value("from Ada")
        hers.write("from Ada, **better**")
        expect(his.messages.first).to_have_text("from Ada, better")
        expect(his.page.locator(".message").first).to_contain_text("edited")
        expect(his.page.locator(".text strong")).to_have_text("better")
        expect(box).to_have_value("")

    def test_a_deletion_leaves_its_place(self, tabs: tuple[Tab, Tab]) -> None:
        hers, his = tabs
        his.choose("from Ben", "Edit")
        box = his.page.get_by_label("Message", exact=True)
        box.fill("what Ben was writing")
        hers.choose("from Ben", "Delete")
        hers.page.get_by_role("button", name="Delete").click()
        for tab in tabs:
            tab.expect_messages(["from Ada", "This message was deleted"])
        expect(his.row("Friends")).to_contain_text("Deleted message")
        expect(his.page.get_by_role("button", name=re.compile("^Actions for"))).to_have_count(1)
        expect(his.page.locator(".context")).to_be_hidden()
        expect(box).to_have_value("what Ben was writing")

    def test_reactions_with_who(self, tabs: tuple[Tab, Tab]) -> None:
        hers, his = tabs
        his.choose("from Ada", "👍")
        mine = hers.page.locator(".reaction")
        expect(mine).to_have_text("👍1")
        expect(mine).to_have_attribute("aria-label", "👍 Ben")
        mine.click()
        expect(his.page.locator(".reaction")).to_have_text("👍2")
        expect(mine).to_have_attribute("aria-pressed", "true")
        expect(mine).to_be_focused()
        hers.choose("from Ada", "Who reacted")
        expect(hers.page.get_by_role("dialog").locator(".member")).to_have_count(2)
        hers.page.keyboard.press("Escape")
        his.choose("from Ada", "👍")
        mine.click()
        expect(his.page.locator(".reaction")).to_have_count(0)

    def test_a_pin_is_shown_above_and_leads_there(self, tabs: tuple[Tab, Tab]) -> None:
        hers, his = tabs
        hers.choose("from Ben", "Pin")
        pinned = his.page.get_by_role("button", name=re.compile("^Pinned message"))
        expect(pinned).to_contain_text("from Ben")
        pinned.click()
        expect(his.page.locator(".message").last).to_be_focused()
        his.choose("from Ada", "Reply")
        expect(his.page.get_by_role("menuitem", name="Pin")).to_have_count(0)
        hers.choose("from Ben", "Unpin")
        expect(pinned).to_have_count(0)

    def test_a_mention_is_completed_and_highlighted(self, tabs: tuple[Tab, Tab]) -> None:
        hers, his = tabs
        hers.page.get_by_label("Message", exact=True).press_sequentially("hello @b")
        expect(hers.page.get_by_role("option", name="Ben")).to_be_visible()
        hers.page.keyboard.press("Enter")
        hers.page.keyboard.press("Enter")
        expect(his.page.locator(".mention.is-me")).to_have_text("@Ben")
        expect(his.page.locator(".message").last).to_have_class(re.compile("mentions-me"))
        expect(hers.page.locator(".mention")).to_have_text("@Ben")

    def test_notices_are_lines(self, system: System, chat_id: ChatId, ada: Person, tabs: tuple[Tab, Tab]) -> None:
        hers, his = tabs
        emi = system.user()
        system.rest(emi, "PATCH", "/api/users/me", display_name="Emi")
        system.rest(ada.device, "POST", f"/api/chats/{chat_id}/members", user_id=emi.user_id, action="add")
        system.rest(ada.device, "PATCH", f"/api/chats/{chat_id}", name="Sailors")
        lines = his.page.locator(".event")
        expect(lines).to_have_text(["Ada added Emi", "Ada renamed the group to “Sailors”"])
        expect(hers.page.locator(".event").first).to_have_text("You added Emi")
        expect(his.page.get_by_role("heading", name="Sailors")).to_be_visible()
        expect(his.row("Sailors")).to_contain_text("from Ben")
        system.rest(ada.device, "PATCH", f"/api/chats/{chat_id}", name="Sailors of the longest name " * 3)
        expect(lines).to_have_count(3)
        expect(his.page.get_by_role("button", name="Send")).to_be_in_viewport(ratio=1)

    def test_a_refusal_is_told(self, system: System, chat_id: ChatId, ben: Person, tabs: tuple[Tab, Tab]) -> None:
        hers, _ = tabs
        hers.choose("from Ben", "Reply")
        hers.page.evaluate("() => { window.held = WebSocket.prototype.send; WebSocket.prototype.send = () => {}; }")
        hers.choose("from Ben", "👍")
        system.rest(ben.device, "DELETE", f"/api/chats/{chat_id}/messages/2")
        hers.page.evaluate("() => { WebSocket.prototype.send = window.held; }")
        hers.page.context.set_offline(True)
        hers.page.evaluate("dispatchEvent(new Event('offline'))")
        hers.page.context.set_offline(False)
        hers.page.evaluate("dispatchEvent(new Event('online'))")
        expect(hers.page.locator(".toast")).to_be_visible()
        expect(hers.page.locator(".reaction")).to_have_count(0)


class TestPressing:
    """What changes between press and release of a mouse button still gets its click."""

    def test_a_message_that_changes(self, tabs: tuple[Tab, Tab]) -> None:
        hers, his = tabs
        message = hers.message("from Ada")
        message.hover()
        message.get_by_role("button", name=re.compile("^Actions for")).hover()
        hers.page.mouse.down()
        his.choose("from Ada", "👍")
        expect(his.page.locator(".reaction")).to_have_count(1)
        # He has just sent one: his next start is forwarded after more than two seconds.
        his.page.get_by_label("Message", exact=True).press_sequentially("and so on and on", delay=200)
        expect(hers.page.get_by_text("Ben is typing…").first).to_be_visible()
        expect(message.locator(".reaction")).to_have_count(0)
        hers.page.mouse.up()
        expect(hers.page.get_by_role("menu")).to_be_visible()
        expect(message.locator(".reaction")).to_have_count(1)

    def test_a_row_of_the_chat_list_that_changes(
        self, system: System, chat_id: ChatId, ben: Person, tabs: tuple[Tab, Tab]
    ) -> None:
        hers, _ = tabs
        hers.open("#/settings")
        row = hers.row("Friends")
        row.get_by_text("Friends").hover()
        hers.page.mouse.down()
        path = f"/api/chats/{chat_id}/messages"
        system.rest(ben.device, "POST", path, client_message_id="later", content="in between")
        expect(hers.page).to_have_title(re.compile(r"\(1\)"))
        expect(row).not_to_contain_text("in between")
        hers.page.mouse.up()
        expect(row).to_contain_text("in between")
        expect(hers.messages).to_have_count(3)


class TestKeyboard:
    def test_everything_of_the_menu(self, tabs: tuple[Tab, Tab]) -> None:
        hers, his = tabs
        keys = hers.page.keyboard
        hers.page.get_by_label("Messages", exact=True).focus()
        keys.press("ArrowUp")
        keys.press("ArrowUp")
        expect(hers.page.locator(".message").first).to_be_focused()
        keys.press("Enter")
        keys.press("ArrowRight")
        keys.press("Enter")
        expect(his.page.locator(".reaction")).to_have_text("❤️1")
        expect(hers.page.locator(".message").first).to_be_focused()
        keys.press("Enter")
        keys.press("End")
        expect(hers.page.get_by_role("menuitem", name="Delete")).to_be_focused()
        keys.press("Escape")
        expect(hers.page.get_by_role("menu")).to_have_count(0)
        expect(hers.page.locator(".message").first).to_be_focused()
        keys.press("r")
        expect(hers.page.locator(".context")).to_contain_text("Reply to Ada")
        keys.press("Escape")
        expect(hers.page.locator(".context")).to_be_hidden()

    def test_focus_returns_to_a_message_that_changed_while_its_menu_was_open(
        self, system: System, tabs: tuple[Tab, Tab], ben: Person, chat_id: ChatId
    ) -> None:
        hers, _ = tabs
        keys = hers.page.keyboard
        hers.page.get_by_label("Messages", exact=True).focus()
        keys.press("ArrowUp")
        keys.press("ArrowUp")
        keys.press("Enter")
        expect(hers.page.get_by_role("menu")).to_be_visible()
        system.rest(ben.device, "PUT", f"/api/chats/{chat_id}/messages/1/reactions/👍")
        expect(hers.page.locator(".reaction")).to_have_text("👍1")
        keys.press("Escape")
        expect(hers.page.locator(".message").first).to_be_focused()


class TestWaitingChanges:
    def test_an_edit_waits_with_a_sign_and_if_it_is_refused_its_text_is_kept(
        self, system: System, tabs: tuple[Tab, Tab], ada: Person, chat_id: ChatId
    ) -> None:
        hers, his = tabs
        hers.page.context.set_offline(True)
        hers.page.evaluate("dispatchEvent(new Event('offline'))")
        expect(hers.banner).to_be_visible()
        hers.choose("from Ada", "Edit")
        hers.write("from Ada, at length")
        hers.expect_state("from Ada", "sending")

        system.rest(ada.device, "DELETE", f"/api/chats/{chat_id}/messages/1")
        his.expect_messages(["This message was deleted", "from Ben"])
        hers.page.context.set_offline(False)
        hers.page.evaluate("dispatchEvent(new Event('online'))")
        hers.expect_messages(["This message was deleted", "from Ben"])
        expect(hers.page.get_by_label("Message", exact=True)).to_have_value("from Ada, at length")


class TestTheSamePicture:
    def test_for_who_was_there_who_was_offline_and_who_comes_later(
        self, system: System, new_person: NewPerson, ada: Person, ben: Person
    ) -> None:
        emi = new_person("Emi")
        chat_id = system.group(ada.device, [ben.device, emi.device])
        hers, his, away = (person.tab().open_chat(chat_id) for person in (ada, ben, emi))
        hers.write("one")
        his.write("two")
        expect(away.messages).to_have_count(2)
        away.page.context.set_offline(True)
        away.page.evaluate("dispatchEvent(new Event('offline'))")
        expect(away.banner).to_be_visible()

        his.choose("one", "Reply")
        his.write("three")
        expect(hers.messages).to_have_count(3)
        hers.choose("two", "🎉")
        hers.choose("one", "Pin")
        hers.write("four")
        hers.choose("four", "Edit")
        hers.write("four, edited")
        hers.choose("three", "Delete")
        hers.page.get_by_role("button", name="Delete").click()
        his.expect_messages(["one", "two", "This message was deleted", "four, edited"])
        expect(his.page.locator(".reaction")).to_have_count(1)

        away.page.context.set_offline(False)
        away.page.evaluate("dispatchEvent(new Event('online'))")
        expect(away.page.get_by_role("button", name=re.compile("^Pinned message"))).to_contain_text("one")
        away.expect_messages(["one", "two", "This message was deleted", "four, edited"])
        later = emi.tab().open_chat(chat_id)
        expect(later.page.get_by_role("button", name=re.compile("^Pinned message"))).to_contain_text("one")
        expect(later.page.locator(".reaction")).to_have_count(1)
        assert away.picture() == later.picture()
        assert [line for line in his.picture() if "four" in line] == [line for line in away.picture() if "four" in line]


class TestUnread:
    def test_the_badge_counts_messages_only(self, system: System, ada: Person, ben: Person, chat_id: ChatId) -> None:
        his = ben.tab().open()
        expect(his.row("Friends")).to_be_visible()
        entries = f"/api/chats/{chat_id}/messages"
        for number in (1, 2):
            system.rest(ada.device, "POST", entries, client_message_id=str(number), content=f"message {number}")
        system.rest(ada.device, "PATCH", f"{entries}/2", client_message_id="edit", content="message 2, edited")
        system.rest(ada.device, "PUT", f"{entries}/1/reactions/👍")
        system.rest(ada.device, "PATCH", f"/api/chats/{chat_id}", name="Sailors")
        row = his.row("Sailors")
        expect(row).to_contain_text("message 2, edited")
        expect(row.locator(".badge")).to_have_text("2")
        his.page.reload()
        expect(row.locator(".badge")).to_have_text("2")
        row.click()
        expect(row.locator(".badge")).to_have_count(0)
        system.rest(ada.device, "DELETE", f"{entries}/1/reactions/👍")
        expect(his.page.locator(".reaction")).to_have_count(0)
        his.page.reload()
        expect(his.messages).to_have_count(2)
        expect(row.locator(".badge")).to_have_count(0)
