"""Example bodies for the OpenAPI document."""

from typing import Any

from drf_spectacular.utils import OpenApiExample

_ADA, _BOB = "user_01KG7Y4QZ8M3T5V6W7X8Y9Z0A1", "user_01KG7Y4QZ8N4V6W7X8Y9Z0A1B2"
CHAT: dict[str, Any] = {
    "chat_id": "chat_01KG7Y4R00P5Q6R7S8T9V0W1X2",
    "type": "group",
    "name": "Project Team",
    "created_by": _ADA,
    "created_at": "2026-01-30T14:30:00.000Z",
    "updated_at": "2026-01-30T14:30:00.000Z",
    "last_sequence": 42,
}
_MEMBER = {"user_id": _BOB, "display_name": "Bob", "role": "member", "joined_at": "2026-01-30T14:30:00.000Z"}

GROUP = OpenApiExample("A group", {"type": "group", "name": "Project Team", "members": [_BOB]}, request_only=True)
DIRECT = OpenApiExample("A direct chat", {"type": "direct", "members": [_BOB]}, request_only=True)
NEW_CHAT = OpenApiExample("New", {**CHAT, "last_sequence": 0}, response_only=True, status_codes=["201"])
FOUND_CHAT = OpenApiExample("A chat", CHAT, response_only=True, status_codes=["200"])
NEW_NAME = OpenApiExample("A new name", {"name": "Project Team"}, request_only=True)
MUTE = OpenApiExample("For a while", {"muted_until": "2026-02-01T08:00:00.000Z"}, request_only=True)
UNMUTE = OpenApiExample("No longer", {"muted_until": None}, request_only=True)
MUTED = OpenApiExample(
    "Muted",
    {"chat_id": CHAT["chat_id"], "muted_until": "2026-02-01T08:00:00.000Z"},
    response_only=True,
    status_codes=["200"],
)
MEMBERS = OpenApiExample("Members", {"items": [_MEMBER], "next_cursor": None}, response_only=True, status_codes=["200"])
ADD = OpenApiExample("Add", {"user_id": _BOB, "action": "add", "role": "member"}, request_only=True)
REMOVE = OpenApiExample("Remove", {"user_id": _BOB, "action": "remove"}, request_only=True)
MEMBER = OpenApiExample("A member", _MEMBER, response_only=True, status_codes=["200"])
REMOVED = OpenApiExample("Removed", {"user_id": _BOB, "removed": True}, response_only=True, status_codes=["200"])
NEW_ROLE = OpenApiExample("Appoint an admin", {"role": "admin"}, request_only=True)
HAND_OVER = OpenApiExample("Hand over the ownership", {"role": "owner"}, request_only=True)
