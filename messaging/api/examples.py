"""Examples of entries in the OpenAPI document."""

from typing import Any

MESSAGE: dict[str, Any] = {
    "message_id": "msg_01JJW3T9T0G5ZB1M2N3P4Q5R6S",
    "chat_id": "chat_01JJW3S0A0G5ZB1M2N3P4Q5R6S",
    "sequence": 47,
    "sender_id": "user_01JJW3R1B0G5ZB1M2N3P4Q5R6S",
    "client_message_id": "5f0c1f6e-6f0f-4a53-9d0c-6f2f0d5a3b1e",
    "kind": "message",
    "content": "Hello, world!",
    "content_type": "text/plain",
    "created_at": "2026-01-30T14:30:00.000Z",
}
_OTHER: dict[str, Any] = {
    **MESSAGE,
    "message_id": "msg_01JJW3V2M0G5ZB1M2N3P4Q5R6S",
    "client_message_id": "9b2d8a54-3f0e-4c57-8a4e-2f1f0d5a3b1e",
    "sequence": 51,
    "content": "",
    "created_at": "2026-01-30T14:31:00.000Z",
    "target": 47,
}
EDIT = {**_OTHER, "kind": "edit", "content": "Hello, everyone!"}
DELETION = {**_OTHER, "kind": "deletion"}
REACTION = {**_OTHER, "kind": "reaction", "emoji": "👍", "action": "add"}
PIN = {**_OTHER, "kind": "pin", "action": "add"}
CHANGED = {
    **MESSAGE,
    "content": "Hello, everyone!",
    "edited_at": "2026-01-30T14:31:00.000Z",
    "last_change": 52,
    "reactions": [{"emoji": "👍", "count": 1, "user_ids": ["user_01JJW3R1B0G5ZB1M2N3P4Q5R6S"]}],
}
UNCHANGED = {"duplicate": True, "sequence": None, "message": CHANGED}
