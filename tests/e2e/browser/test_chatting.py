"""Two browsers in one chat: live delivery, reload, interruption and history."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

from parley_client import Client
from playwright.sync_api import APIResponse, Route, expect

from foundation.kernel.ids import ChatId
from tests.doubles import eventually
from tests.e2e.browser.people import Person, Tab
from tests.e2e.system import System


class TestTwoBrowsers:
    def test_they_chat_in_real_time(self, ada: Person, ben: Person, chat_id: ChatId) -> None:
        hers, his = ada.tab().open_chat(chat_id), ben.tab().open()
        expect(his.row("Ada")).to_be_visible()
        expect(hers.row("Ben")).to_be_visible()
        hers.write("Hello Ben")
        expect(his.row("Ada").locator(".badge")).to_have_text("1")
        expect(his.row("Ada")).to_contain_text("Hello Ben")

        his.row("Ada").click()
        expect(his.row("Ada").locator(".badge")).to_have_count(0)
        his.write("Hello Ada")
        hers.expect_messages(["Hello Ben", "Hello Ada"])
        his.expect_messages(["Hello Ben", "Hello Ada"])
        hers.expect_stored("Hello Ben")
        expect(hers.page.locator("#announcer")).to_have_text("Ben: Hello Ada")

    def test_a_message_that_arrives_before_the_inbox_response_is_listed(
        self, system: System, ada: Person, ben: Person, chat_id: ChatId
    ) -> None:
        """The server read the inbox before the message was stored; the response arrives after the message."""
        his, held = ben.tab(), list[tuple[Route, APIResponse]]()
        his.page.route(re.compile(r"/api/chats(\?|$)"), lambda route: held.append((route, route.fetch())))

        def is_held() -> bool:
            his.page.wait_for_timeout(10)  # runs Playwright's event loop
            return bool(held)

        his.open()
        eventually(is_held)
        message = {"client_message_id": "1", "content": "before the inbox"}
        with his.page.expect_response(re.compile(f"/api/chats/{chat_id}$")):
            system.rest(ada.device, "POST", f"/api/chats/{chat_id}/messages", **message)
        for route, answer in held:
            route.fulfill(response=answer)
        expect(his.row("Ada")).to_contain_text("before the inbox")
        expect(his.row("Ada").locator(".badge")).to_have_text("1")

    def test_many_messages_at_once_come_in_one_order(self, ada: Person, ben: Person, chat_id: ChatId) -> None:
        hers, his = ada.tab().open_chat(chat_id), ben.tab().open_chat(chat_id)
        for number in range(8):
            hers.write(f"a{number}")
            his.write(f"b{number}")
        expect(hers.messages).to_have_count(16)
        expect(his.messages).to_have_count(16)
        expect(his.page.locator("[data-state=sending]")).to_have_count(0)
        expect(hers.page.locator("[data-state=sending]")).to_have_count(0)
        texts = hers.messages.all_text_contents()
        assert his.messages.all_text_contents() == texts
        assert [text for text in texts if text.startswith("a")] == [f"a{number}" for number in range(8)]
        assert hers.sequences() == his.sequences() == list(range(1, 17))

    def test_reloading_keeps_everything(self, ada: Person, ben: Person, chat_id: ChatId) -> None:
        hers, his = ada.tab().open_chat(chat_id), ben.tab().open_chat(chat_id)
        hers.write("first")
        hers.expect_stored("first")
        hers.page.get_by_label("Message", exact=True).fill("half writ")
        hers.page.reload()
        hers.expect_messages(["first"])
        hers.expect_stored("first")
        his.write("second")
        hers.expect_messages(["first", "second"])


class TestTabs:
    def test_tabs_of_one_person_show_the_same(self, ada: Person, ben: Person, chat_id: ChatId) -> None:
        one, other, his = ada.tab().open_chat(chat_id), ada.tab().open(), ben.tab().open_chat(chat_id)
        one.page.bring_to_front()
        his.write("for both tabs")
        one.expect_messages(["for both tabs"])
        expect(other.row("Ben")).to_contain_text("for both tabs")
        expect(other.row("Ben").locator(".badge")).to_have_count(0)
        one.write("from the first tab")
        other.open_chat(chat_id)
        other.expect_messages(["for both tabs", "from the first tab"])

    def test_logging_out_in_one_tab_logs_out_the_other(self, ada: Person, chat_id: ChatId) -> None:
        one, other = ada.tab().open("#/settings"), ada.tab().open()
        expect(other.row("Ben")).to_be_visible()
        one.page.get_by_role("button", name="Log out").click()
        for tab in (one, other):
            expect(tab.page.get_by_role("heading", name="Welcome")).to_be_visible()


class TestInterruptions:
    def test_a_restart_of_the_server_loses_nothing(
        self, system: System, ada: Person, ben: Person, chat_id: ChatId
    ) -> None:
        hers, his, closing = (person.tab().open_chat(chat_id) for person in (ada, ben, ada))
        hers.write("before")
        for tab in (hers, his, closing):
            tab.expect_messages(["before"])
        web = system.webs[0]
        web.kill()
        expect(hers.banner).to_be_visible()
        hers.write("hers, meanwhile")
        his.write("his, meanwhile")
        closing.write("from a tab that is closed")
        closing.expect_state("from a tab that is closed", "sending")
        closing.page.close()
        web.restart()
        web.wait_until_ready()

        for tab in (hers, his):
            tab.page.evaluate("dispatchEvent(new Event('online'))")
        for tab in (hers, his):
            expect(tab.banner).to_be_hidden()
            expect(tab.page.locator("[data-state=sending]")).to_have_count(0)
            expect(tab.messages).to_have_count(3)
        ada.tab().open_chat(chat_id).expect_stored("from a tab that is closed")
        hers.write("after")
        expect(his.messages).to_have_count(5)
        texts = his.messages.all_text_contents()
        hers.expect_messages(texts)
        assert sorted(texts[1:3]) == ["hers, meanwhile", "his, meanwhile"]
        assert (texts[0], *texts[3:]) == ("before", "from a tab that is closed", "after")
        assert hers.sequences() == his.sequences() == [1, 2, 3, 4, 5]
        assert [message.content for message in system.stored(chat_id)] == texts

    def test_a_refused_message_is_sent_again_under_its_id(self, system: System, ada: Person, chat_id: ChatId) -> None:
        hers = ada.tab()
        refuse_first_send(hers)
        hers.open_chat(chat_id)
        hers.write("stubborn")
        hers.expect_state("stubborn", "failed")
        expect(hers.message("stubborn")).to_contain_text("Not today")
        hers.page.get_by_role("button", name="Try again").click()
        hers.expect_stored("stubborn")
        sent = hers.page.evaluate("sessionStorage.getItem('sent ids').trim().split(' ')")
        assert len(sent) == 2
        assert len(set(sent)) == 1
        assert [message.client_message_id for message in system.stored(chat_id)] == sent[:1]


class TestHistory:
    def test_five_hundred_messages_are_reached_by_scrolling(
        self, system: System, ada: Person, ben: Person, chat_id: ChatId
    ) -> None:
        send_many(system, ada, chat_id, 500)
        system.rest(ben.device, "POST", f"/api/chats/{chat_id}/read", sequence=500)
        his = ben.tab().open_chat(chat_id)
        shown = his.page.locator(".message")
        expect(shown.last).to_have_attribute("data-sequence", "500")
        for oldest in range(451, 1, -50):
            assert his.sequences() == list(range(oldest, 501))
            his.page.evaluate("document.querySelector('.messages').scrollTop = 0")
            expect(shown.first).to_have_attribute("data-sequence", str(oldest - 50))
            top = his.page.evaluate(
                f"document.querySelector('[data-sequence=\"{oldest}\"]').getBoundingClientRect().top"
            )
            assert 60 < top < 200, "the scroll position was not kept"
        assert his.sequences() == list(range(1, 501))
        his.page.evaluate("document.querySelector('.messages').scrollTop = 0")
        expect(his.page.get_by_text("This is where the chat begins.")).to_be_in_viewport()

        his.page.get_by_role("button", name="Go to the end").click()
        send_many(system, ada, chat_id, 1)
        expect(his.page.locator("[data-sequence='501']")).to_be_in_viewport()


def send_many(system: System, sender: Person, chat_id: ChatId, count: int) -> None:
    """Send with parley_client in another thread: Playwright occupies this thread's event loop."""

    async def send() -> None:
        async with Client(system.webs[0].socket_url, token=sender.device.token, acknowledge=False) as client:
            await client.connected.wait()
            await asyncio.gather(*(client.send(chat_id, f"message {number}") for number in range(count)))

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, send()).result()


def refuse_first_send(tab: Tab) -> None:
    """Answer the page's first `send_message` with an error instead of sending it."""
    tab.page.add_init_script("""
        const send = WebSocket.prototype.send;
        let refusals = 1;
        WebSocket.prototype.send = function (text) {
            const frame = JSON.parse(text);
            if (frame.type === "send_message") {
                const ids = sessionStorage.getItem("sent ids") ?? "";
                sessionStorage.setItem("sent ids", `${ids} ${frame.client_message_id}`);
                if (refusals-- > 0) {
                    const error = { ...frame, type: "error", code: "forbidden", detail: "Not today", retryable: false };
                    setTimeout(() => this.onmessage({ data: JSON.stringify(error) }));
                    return;
                }
            }
            send.call(this, text);
        };
    """)
