"""The OpenAPI document and its page."""

import re
from typing import Any

import pytest

from foundation.kernel.errors import catalogue
from tests.integration.accounts.conftest import App

PATHS = {
    "/api/auth/request-code": {"post"},
    "/api/auth/verify": {"post"},
    "/api/auth/refresh": {"post"},
    "/api/auth/logout": {"post"},
    "/api/sessions": {"get", "delete"},
    "/api/sessions/{session_id}": {"delete"},
    "/api/users/me": {"get", "patch"},
    "/api/users/{user_id}": {"get"},
    "/api/users/lookup": {"post"},
}


@pytest.fixture
def schema(app: App) -> dict[str, Any]:
    answer = app.get("/api/schema")
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/json")
    return dict(answer.json())


class TestSchema:
    def test_it_knows_every_path_of_accounts(self, schema: dict[str, Any]) -> None:
        assert schema["openapi"].startswith("3.")
        assert {path: set(operations) for path, operations in schema["paths"].items()} == PATHS

    def test_it_lists_every_error_code(self, schema: dict[str, Any]) -> None:
        assert [error.code for error in catalogue() if f"| `{error.code}` |" not in schema["info"]["description"]] == []

    def test_it_asks_for_a_bearer_token_except_at_the_login(self, schema: dict[str, Any]) -> None:
        assert schema["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
        public = {
            path
            for path, operations in schema["paths"].items()
            for operation in operations.values()
            if not any(operation.get("security", []))
        }
        assert public == {"/api/auth/request-code", "/api/auth/verify", "/api/auth/refresh"}

    def test_every_failure_is_a_problem(self, schema: dict[str, Any]) -> None:
        for operations in schema["paths"].values():
            for operation in operations.values():
                failures = {status: answer for status, answer in operation["responses"].items() if status >= "400"}
                assert "503" in failures
                for answer in failures.values():
                    content = answer["content"]["application/problem+json"]
                    assert content["schema"] == {"$ref": "#/components/schemas/Problem"}

    def test_every_answer_and_body_has_an_example(self, schema: dict[str, Any]) -> None:
        for path, operations in schema["paths"].items():
            for method, operation in operations.items():
                if "requestBody" in operation:
                    assert operation["requestBody"]["content"]["application/json"].get("examples"), (method, path)
                for status in ("200", "201", "202"):
                    if status in operation["responses"]:
                        content = operation["responses"][status]["content"]["application/json"]
                        assert content.get("examples"), (method, path, status)


class TestDocs:
    def test_the_page_needs_no_other_host(self, app: App) -> None:
        client = app.client
        page = client.get("/api/docs")
        assert page.status_code == 200
        html = page.content.decode()
        assert re.findall(r"(?:src|href)=\"(?:https?:)?//[^\"]+", html) == []
        assets = re.findall(r"(?:src|href)=\"(/static/[^\"]+)\"", html)
        assert len(assets) >= 3
        for asset in assets:
            served = client.get(asset)
            assert served.status_code == 200
            again = client.get(asset, headers={"If-Modified-Since": served["Last-Modified"]})
            assert again.status_code == 304

    def test_the_page_answers_reads_only(self, app: App) -> None:
        assert app.client.options("/api/docs").status_code == 405
        assert app.client.post("/api/docs").status_code == 405

    @pytest.mark.parametrize("path", ["nothing.js", "../config/urls.py", "%2e%2e/manage.py", "drf_spectacular_sidecar"])
    def test_no_other_file_is_served(self, app: App, path: str) -> None:
        answer = app.get(f"/static/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
