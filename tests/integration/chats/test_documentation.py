"""The OpenAPI document lists every route of chats and the inbox with all its responses."""

from typing import Any

import pytest

from foundation.rest.schema import generate
from tests.integration.chats.services import Services

COMMON = {401, 403, 406, 429, 503}
BODY = {400, 413, 415, 422}
DOCUMENTED = {
    ("get", "/api/chats"): {200, 400, 422},
    ("post", "/api/chats"): {200, 201, 404} | BODY,
    ("get", "/api/chats/{chat_id}"): {200, 404},
    ("patch", "/api/chats/{chat_id}"): {200, 403, 404, 409} | BODY,
    ("put", "/api/chats/{chat_id}/mute"): {200, 404} | BODY,
    ("get", "/api/chats/{chat_id}/members"): {200, 400, 404, 422},
    ("post", "/api/chats/{chat_id}/members"): {200, 403, 404, 409} | BODY,
    ("patch", "/api/chats/{chat_id}/members/{user_id}"): {200, 403, 404, 409} | BODY,
    ("delete", "/api/chats/{chat_id}/members/{user_id}"): {204, 403, 404, 409},
}


@pytest.fixture
def document(services: Services) -> dict[str, Any]:
    return generate(services.urlconf().urlpatterns)


def test_every_route_and_every_status_is_documented(document: dict[str, Any]) -> None:
    found = {
        (method, path): {int(status) for status in operation["responses"]}
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if operation["tags"] == ["Chats"]
    }
    assert found == {route: statuses | COMMON for route, statuses in DOCUMENTED.items()}


@pytest.mark.parametrize("route", DOCUMENTED)
def test_every_route_has_a_summary_and_examples(document: dict[str, Any], route: tuple[str, str]) -> None:
    method, path = route
    operation = document["paths"][path][method]
    assert operation["summary"]
    assert operation["tags"] == ["Chats"]
    if "requestBody" in operation:
        assert operation["requestBody"]["content"]["application/json"]["examples"]
    for status in ("200", "201"):
        if status in operation["responses"]:
            assert operation["responses"][status]["content"]["application/json"]["examples"]


def test_strict_bodies_allow_no_additional_properties(document: dict[str, Any]) -> None:
    for name in ("CreateChat", "RenameChat", "ChangeMembers", "ChangeRole", "Mute"):
        assert document["components"]["schemas"][f"{name}BodyRequest"]["additionalProperties"] is False


def test_error_responses_name_their_codes(document: dict[str, Any]) -> None:
    conflict = document["paths"]["/api/chats/{chat_id}/members"]["post"]["responses"]["409"]
    for code in ("already_a_member", "group_full", "owner_must_transfer", "direct_chat_is_fixed"):
        assert f"`{code}`" in conflict["description"]


def test_the_methods_of_one_path_are_documented_by_their_own_views(document: dict[str, Any]) -> None:
    operations = document["paths"]["/api/chats"]
    assert {method: operation["operationId"] for method, operation in operations.items()} == {
        "get": "list_chats",
        "post": "create_chat",
    }
