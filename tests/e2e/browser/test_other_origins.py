"""A page of another origin imports `parley.js`, logs in and chats; unless its origin is not allowed."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page

from tests.e2e.browser.test_client import latest_code
from tests.e2e.system import System

NUMBER = "+4915120000077"
IMPORT = "async (url) => { globalThis.parley = await import(`${url}/static/parley/parley.js`); }"
ASK_FOR_CODE = """async ({ url, number }) => {
  globalThis.session = new parley.Session({ url });
  await session.requestCode(number);
}"""
CHAT = """async ({ number, code, other }) => {
  await session.verify({ phoneNumber: number, code, deviceId: "another page" });
  const body = { type: "group", name: "Elsewhere", members: [other] };
  const chat = await session.request("POST", "/api/chats", body, { "Idempotency-Key": crypto.randomUUID() });
  const client = new parley.Parley({ session });
  const message = new Promise((resolve) => client.addEventListener("sent", ({ detail }) => resolve(detail.entry)));
  client.start();
  client.follow(chat.chat_id, 0);
  client.send(chat.chat_id, "hello from elsewhere");
  const { sequence } = await message;
  const page = await session.request("GET", `/api/chats/${chat.chat_id}/messages`);
  client.stop();
  return { sequence, contents: page.messages.map((each) => each.content) };
}"""


class EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!DOCTYPE html><title>Elsewhere</title>")

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """The address of a page that is not ours."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(browser: Browser, elsewhere: str) -> Iterator[Page]:
    context = browser.new_context()
    page = context.new_page()
    page.goto(elsewhere)
    yield page
    context.close()


class TestOtherOrigins:
    def test_a_page_of_an_allowed_one_logs_in_and_chats(self, page: Page, system: System, data_dir: Path) -> None:
        url = system.webs[0].url
        page.evaluate(IMPORT, url)
        page.evaluate(ASK_FOR_CODE, {"url": url, "number": NUMBER})
        attempt = {"number": NUMBER, "code": latest_code(data_dir), "other": system.user().user_id}
        assert page.evaluate(CHAT, attempt) == {"sequence": 1, "contents": ["hello from elsewhere"]}

    def test_a_page_of_another_may_not_even_import_it(self, page: Page, system: System) -> None:
        strict = system.start_web(ALLOWED_ORIGINS="https://app.parley.example")
        with pytest.raises(Error, match="import"):
            page.evaluate(IMPORT, strict.url)
