"""The page of the API's documentation, under its Content-Security-Policy."""

from typing import TYPE_CHECKING

from tests.e2e.system import System

if TYPE_CHECKING:
    from playwright.sync_api import Browser


class TestDocs:
    def test_swagger_ui_works_under_the_policy(self, system: System, browser: "Browser") -> None:
        page = browser.new_page()
        errors: list[str] = []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(f"{system.webs[0].url}/api/docs")
        page.get_by_text("/api/auth/request-code").first.click()
        page.get_by_role("button", name="Try it out").click()
        page.get_by_role("button", name="Execute").wait_for()
        page.close()
        assert errors == []
