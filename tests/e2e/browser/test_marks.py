"""Ticks, typing, presence and where a chat was left, between two browsers."""

import re

from playwright.sync_api import WebSocketRoute, expect

from foundation.kernel.ids import ChatId
from tests.doubles import eventually
from tests.e2e.browser.conftest import NewPerson
from tests.e2e.browser.people import PHONE, Person
from tests.e2e.system import System


class TestOnPhones:
    def test_a_first_contact_from_the_first_tick_to_the_last(self, system: System, new_person: NewPerson) -> None:
        ada, ben = new_person("Ada", screen=PHONE), new_person("Ben", screen=PHONE)
        chat_id = system.direct_chat(ada.device, ben.device)
        hers = ada.tab().open_chat(chat_id)
        hers.write("hello")
        hers.expect_state("hello", "sent")

        his = ben.tab().open()
        hers.expect_state("hello", "delivered")
        expect(hers.page.locator(".subtitle")).to_have_text("online")
        expect(his.row("Ada").locator(".badge")).to_have_text("1")
        expect(his.page).to_have_title("(1) Parley")
        his.page.reload()
        expect(his.row("Ada").locator(".badge")).to_have_text("1")
        hers.write("are you there?")
        expect(his.row("Ada").locator(".badge")).to_have_text("2")
        hers.expect_state("are you there?", "delivered")

        his.row("Ada").tap()
        expect(his.page.locator(".unread + .message")).to_have_attribute("data-sequence", "1")
        expect(his.page).to_have_title("Parley")
        expect(hers.page.get_by_label("Read by everybody")).to_have_count(2)
        his.page.get_by_label("Message", exact=True).press_sequentially("ye")
        expect(hers.page.locator(".subtitle")).to_have_text("typing…")
        hers.page.get_by_role("link", name="Back to the chats").tap()
        expect(hers.row("Ben").locator(".is-online")).to_be_visible()

    def test_a_chat_that_appears_while_the_page_is_open_is_acknowledged(
        self, system: System, new_person: NewPerson
    ) -> None:
        ada, ben = new_person("Ada", screen=PHONE), new_person("Ben", screen=PHONE)
        his = ben.tab().open()
        expect(his.page.get_by_text("No chats yet")).to_be_visible()
        hers = ada.tab().open_chat(system.direct_chat(ada.device, ben.device))
        hers.write("surprise")
        expect(his.row("Ada").locator(".badge")).to_have_text("1")
        hers.expect_state("surprise", "delivered")


class TestTicks:
    def test_they_are_truthful(self, ada: Person, ben: Person, chat_id: ChatId) -> None:
        hers = ada.tab().open_chat(chat_id)
        hers.write("first")
        hers.expect_state("first", "sent")
        his = ben.tab().open_chat(chat_id)
        hers.expect_state("first", "read")

        his.open()
        expect(his.page.get_by_role("heading", name="Choose a chat")).to_be_visible()
        hers.write("second")
        expect(his.row("Ada").locator(".badge")).to_have_text("1")
        hers.expect_state("second", "delivered")
        his.row("Ada").click()
        hers.expect_state("second", "read")
        expect(hers.page.get_by_label("Read by everybody")).to_have_count(2)

    def test_they_are_truthful_again_after_receipts_were_lost(
        self, system: System, ada: Person, ben: Person, chat_id: ChatId
    ) -> None:
        """As while Redis is away: nothing is pushed, and afterwards the server asks to resync."""
        hers, sockets = ada.tab(), list[WebSocketRoute]()

        def lose_receipts(socket: WebSocketRoute) -> None:
            sockets.append(socket)
            server = socket.connect_to_server()
            server.on_message(lambda text: None if '"type":"receipts"' in str(text) else socket.send(text))

        hers.page.route_web_socket(re.compile("/ws$"), lose_receipts)
        hers.open_chat(chat_id)
        hers.write("first")
        his = ben.tab().open_chat(chat_id)
        his.expect_messages(["first"])
        his.write("seen")
        hers.expect_messages(["first", "seen"])
        path = f"/api/chats/{chat_id}/receipts"
        has_read = {"user_id": ben.device.user_id, "last_acked_sequence": 2, "last_read_sequence": 2}
        eventually(lambda: has_read in system.rest(ada.device, "GET", path)["items"])
        hers.expect_state("first", "sent")
        sockets[-1].send('{"type":"resync"}')
        hers.expect_state("first", "read")

    def test_who_hides_reading_gives_and_gets_two_plain_ticks(self, ada: Person, ben: Person, chat_id: ChatId) -> None:
        his = ben.tab().open("#/settings")
        his.page.get_by_label("Read receipts").uncheck()
        expect(his.page.get_by_label("Read receipts")).not_to_be_checked()
        expect(his.page.locator("[aria-busy=true]")).to_have_count(0)
        his.open_chat(chat_id)
        hers = ada.tab().open_chat(chat_id)
        hers.write("seen?")
        his.expect_messages(["seen?"])
        hers.expect_state("seen?", "delivered")

    def test_seen_by_in_a_group(self, system: System, ada: Person, ben: Person, new_person: NewPerson) -> None:
        emi = new_person("Emi")
        group = system.group(ada.device, [ben.device, emi.device])
        hers, his = ada.tab().open_chat(group), ben.tab().open_chat(group)
        hers.write("hello both")
        his.expect_messages(["hello both"])
        hers.expect_state("hello both", "sent")
        eventually(lambda: has_read(system, ada, ben, group))
        hers.choose("hello both", "Seen by")
        expect(hers.page.get_by_role("dialog").locator(".member")).to_have_text("BBen")


def has_read(system: System, asker: Person, reader: Person, chat_id: ChatId) -> bool:
    receipts = system.rest(asker.device, "GET", f"/api/chats/{chat_id}/receipts")["items"]
    return any(item["user_id"] == reader.device.user_id and item.get("last_read_sequence") for item in receipts)


class TestTyping:
    def test_it_is_shown_in_the_header_and_in_the_list(self, ada: Person, ben: Person, chat_id: ChatId) -> None:
        hers, his, list_only = ada.tab().open_chat(chat_id), ben.tab().open_chat(chat_id), ada.tab().open()
        expect(list_only.row("Ben")).to_be_visible()
        expect(hers.page.get_by_role("heading", name="Ben")).to_be_visible()
        his.page.get_by_label("Message", exact=True).press_sequentially("he")
        expect(hers.page.locator(".subtitle")).to_have_text("typing…")
        expect(list_only.row("Ben")).to_contain_text("typing…")
        his.page.keyboard.press("Enter")
        hers.expect_messages(["he"])
        expect(hers.page.locator(".subtitle")).not_to_have_text("typing…")


class TestPresence:
    def test_online_is_shown_and_then_last_seen(self, ada: Person, ben: Person, chat_id: ChatId) -> None:
        his = ben.tab().open()
        expect(his.row("Ada")).to_be_visible()
        hers = ada.tab().open_chat(chat_id)
        expect(hers.page.locator(".subtitle")).to_have_text("online")
        expect(hers.row("Ben").locator(".is-online")).to_be_visible()
        ben.context.close()
        expect(hers.page.locator(".subtitle")).to_have_text(re.compile("^last seen at"), timeout=60_000)
        expect(hers.row("Ben").locator(".is-online")).to_have_count(0)


class TestWhereAChatWasLeft:
    def test_it_opens_at_the_first_unread_message(
        self, system: System, ada: Person, ben: Person, chat_id: ChatId
    ) -> None:
        def send(first: int, last: int) -> None:
            for number in range(first, last + 1):
                body = {"client_message_id": str(number), "content": f"message {number}"}
                system.rest(ada.device, "POST", f"/api/chats/{chat_id}/messages", **body)

        send(1, 5)
        his = ben.tab().open_chat(chat_id)
        expect(his.messages).to_have_count(5)
        eventually(lambda: system.rest(ben.device, "GET", "/api/chats")["items"][0]["unread_count"] == 0)
        his.open()
        send(6, 80)
        expect(his.row("Ada").locator(".badge")).to_have_text("75")
        expect(his.page).to_have_title("(1) Parley")
        expect(his.page.locator("link[rel=icon]")).to_have_attribute("href", re.compile("icon-unread"))
        his.page.reload()
        his.row("Ada").click()
        expect(his.page.locator(".unread")).to_be_in_viewport()
        expect(his.page.locator(".unread + .message")).to_have_attribute("data-sequence", "6")
        expect(his.row("Ada").locator(".badge")).to_be_visible()
        his.page.get_by_role("button", name="Go to the end").click()
        expect(his.row("Ada").locator(".badge")).to_have_count(0)
        expect(his.page).to_have_title("Parley")
        expect(his.page.locator("link[rel=icon]")).to_have_attribute("href", re.compile("icon.svg"))
