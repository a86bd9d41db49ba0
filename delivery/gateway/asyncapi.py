"""The AsyncAPI document of `/ws`: every frame in both directions, with its fields and an example.

A test compares it with what `requests` parses and `frames` sends.
"""

from typing import Any

import orjson

from delivery.gateway.closing import Close
from delivery.gateway.handshake import SUBPROTOCOL
from messaging.domain import CONTENT_TYPES, MAX_CONTENT_BYTES, MAX_PAGE, MAX_SEQUENCE, Action, Kind

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
SECONDS: Schema = {"type": "number"}
TIME: Schema = {"type": "string", "format": "date-time"}
CHAT_ID: Schema = {"type": "string", "examples": ["chat_01JJW3S0A0G5ZB1M2N3P4Q5R6S"]}
USER_ID: Schema = {"type": "string", "examples": ["user_01JJW3R1B0G5ZB1M2N3P4Q5R6S"]}
MESSAGE_ID: Schema = {"type": "string", "examples": ["msg_01JJW3T9T0G5ZB1M2N3P4Q5R6S"]}
CLIENT_MESSAGE_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"}
SEQUENCE: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_SEQUENCE}
MARK: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_SEQUENCE}
CONTENT: Schema = {"type": "string", "maxLength": MAX_CONTENT_BYTES, "description": "Counted in bytes of UTF-8."}
CONTENT_TYPE: Schema = {"type": "string", "enum": list(CONTENT_TYPES)}
ACTION: Schema = {"type": "string", "enum": [str(action) for action in Action]}
USER_IDS: Schema = {"type": "array", "items": USER_ID}
ATTACHMENTS: Schema = {"type": "array", "maxItems": 0, "examples": [[]], "description": "Not taken yet."}


def nullable(schema: Schema) -> Schema:
    return {"oneOf": [schema, {"type": "null"}]}


def record(fields: dict[str, Schema], *, optional: tuple[str, ...] = (), is_closed: bool = False) -> Schema:
    """An object. Clients ignore fields that they do not know; the server accepts none (`is_closed`)."""
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": not is_closed}


REACTIONS: Schema = {
    "type": "array",
    "items": record({"emoji": TEXT, "count": {"type": "integer", "minimum": 1}, "user_ids": USER_IDS}),
}
ENTRY_FIELDS: dict[str, Schema] = {
    "message_id": MESSAGE_ID,
    "chat_id": CHAT_ID,
    "sequence": SEQUENCE,
    "sender_id": USER_ID,
    "client_message_id": TEXT,
    "kind": {"type": "string", "enum": [str(kind) for kind in Kind]},
    "content": TEXT,
    "content_type": CONTENT_TYPE,
    "created_at": TIME,
    "reply_to": SEQUENCE,
    "mentions": USER_IDS,
    "target": SEQUENCE,
    "emoji": TEXT,
    "action": ACTION,
    "notice": {"type": "object"},
    "edited_at": TIME,
    "deleted_at": TIME,
    "reactions": REACTIONS,
    "last_change": SEQUENCE,
}
ENTRY_OPTIONAL = ("reply_to", "mentions", "target", "emoji", "action", "notice", "edited_at", "deleted_at", "reactions")
ENTRY = record(ENTRY_FIELDS, optional=(*ENTRY_OPTIONAL, "last_change"))
ENTRIES: Schema = {"type": "array", "items": {"$ref": "#/components/schemas/Entry"}}
DRAFT: dict[str, Schema] = {"client_message_id": CLIENT_MESSAGE_ID, "chat_id": CHAT_ID}
MARKED = record(
    {"user_id": USER_ID, "last_acked_sequence": MARK, "last_read_sequence": MARK}, optional=("last_read_sequence",)
)

# Fields, the optional ones among them, and what the frame is for.
Form = tuple[dict[str, Schema], tuple[str, ...], str]

FROM_CLIENTS: dict[str, Form] = {
    "send_message": (
        {
            **DRAFT,
            "content": CONTENT,
            "content_type": CONTENT_TYPE,
            "reply_to": SEQUENCE,
            "mentions": USER_IDS,
            "attachments": ATTACHMENTS,
        },
        ("content_type", "reply_to", "mentions", "attachments"),
        "Send a message. Answered with `ack` or `error`; safe to repeat with the same `client_message_id`.",
    ),
    "edit_message": (
        {**DRAFT, "target": SEQUENCE, "content": CONTENT, "mentions": USER_IDS},
        ("mentions",),
        "Replace the text of an own message. Answered with `ack` or `error`.",
    ),
    "delete_message": ({**DRAFT, "target": SEQUENCE}, (), "Delete a message. Answered with `ack` or `error`."),
    "react": (
        {**DRAFT, "target": SEQUENCE, "emoji": TEXT, "action": ACTION},
        (),
        "Add or remove a reaction. Answered with `ack` or `error`.",
    ),
    "pin": ({**DRAFT, "target": SEQUENCE, "action": ACTION}, (), "Pin or unpin. Answered with `ack` or `error`."),
    "ack": (
        {"chat_id": CHAT_ID, "sequence": SEQUENCE, "read": FLAG},
        ("read",),
        "Everything up to and including it has arrived. `read: false`: unread messages count from `read` alone.",
    ),
    "read": ({"chat_id": CHAT_ID, "sequence": SEQUENCE}, (), "The person has seen everything up to it."),
    "sync_request": (
        {
            "chat_id": CHAT_ID,
            "last_acked_sequence": MARK,
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE},
        },
        ("limit",),
        "Ask for what follows a sequence. Answered with `sync_batch` or `error`.",
    ),
    "typing": ({"chat_id": CHAT_ID, "active": FLAG}, (), "The person types, or has stopped."),
    "watch_presence": ({"chat_id": CHAT_ID, "user_ids": USER_IDS}, (), "Replace the list of people watched in a chat."),
    "heartbeat": ({}, (), "A sign of life. Answered with `heartbeat_ack`."),
    "authenticate": ({"access_token": TEXT}, (), "A fresh access token of the same session."),
}
TO_CLIENTS: dict[str, Form] = {
    "connected": (
        {"connection_id": TEXT, "user_id": USER_ID, "session_id": TEXT, "heartbeat_interval": SECONDS},
        (),
        "The first frame of a connection.",
    ),
    "ack": (
        {
            "client_message_id": TEXT,
            "chat_id": CHAT_ID,
            "message_id": nullable(MESSAGE_ID),
            "sequence": nullable(SEQUENCE),
            "created_at": nullable(TIME),
            "duplicate": FLAG,
            "message": {"$ref": "#/components/schemas/Entry"},
        },
        ("message",),
        "A draft is durable. Without a sequence nothing had to change, and `message` is its target as it stands.",
    ),
    "message": (ENTRY_FIELDS, (*ENTRY_OPTIONAL, "last_change"), "An entry of a chat, with its fields."),
    "message_batch": ({"chat_id": CHAT_ID, "messages": ENTRIES}, (), "Entries of a chat, ascending by sequence."),
    "sync_batch": (
        {"chat_id": CHAT_ID, "messages": ENTRIES, "has_more": FLAG, "latest_sequence": MARK},
        (),
        "The answer to `sync_request`.",
    ),
    "chat_created": (
        {
            "chat_id": CHAT_ID,
            "chat_type": TEXT,
            "name": nullable(TEXT),
            "created_by": USER_ID,
            "initial_members": USER_IDS,
        },
        (),
        "The person is a member of a new chat.",
    ),
    "membership_changed": (
        {
            "chat_id": CHAT_ID,
            "user_id": USER_ID,
            "change_type": TEXT,
            "role": TEXT,
            "changed_by": USER_ID,
            "sequence": SEQUENCE,
        },
        ("sequence",),
        "A member was added, removed, or has another role.",
    ),
    "receipts": ({"chat_id": CHAT_ID, "marks": {"type": "array", "items": MARKED}}, (), "Marks that have moved."),
    "typing": ({"chat_id": CHAT_ID, "user_id": USER_ID, "active": FLAG}, (), "Somebody types, or has stopped."),
    "presence": (
        {"user_id": USER_ID, "status": {"type": "string", "enum": ["online", "offline"]}, "last_seen": TIME},
        ("last_seen",),
        "Somebody who is watched is online or offline.",
    ),
    "resync": ({}, (), "Deliveries may have been lost: sync every chat on the screen."),
    "heartbeat_ack": ({"server_time": TIME}, (), "The answer to `heartbeat`."),
    "error": (
        {
            "code": TEXT,
            "detail": TEXT,
            "retryable": FLAG,
            "retry_after": SECONDS,
            "client_message_id": TEXT,
            "chat_id": TEXT,
        },
        ("retry_after", "client_message_id", "chat_id"),
        "A frame was refused. `code` is one of those of the REST API.",
    ),
}


def example(schema: Schema) -> Any:
    """A value that the schema allows."""
    if "$ref" in schema:
        return example(ENTRY)
    if "oneOf" in schema:
        return example(schema["oneOf"][0])
    if "examples" in schema or "enum" in schema:
        return (schema.get("examples") or schema["enum"])[0]
    match schema["type"]:
        case "object":
            return {name: example(schema["properties"][name]) for name in schema.get("required", ())}
        case "array":
            return [example(schema["items"])]
        case "string":
            return "2026-01-30T14:30:00.000Z" if schema.get("format") == "date-time" else "text"
        case "boolean":
            return True
        case _:
            return max(1, schema.get("minimum", 1))


def payload(kind: str, form: Form, *, is_closed: bool) -> Schema:
    """The schema of a frame. The server refuses fields that it does not know."""
    fields, optional, _ = form
    return record({"type": {"type": "string", "const": kind}, **fields}, optional=optional, is_closed=is_closed)


def document() -> dict[str, Any]:
    """The AsyncAPI 3 document, from the point of view of the server."""
    directions = {"receive": (FROM_CLIENTS, True), "send": (TO_CLIENTS, False)}
    messages = {
        f"{direction}_{kind}": _message(kind, form, is_closed=is_closed)
        for direction, (forms, is_closed) in directions.items()
        for kind, form in forms.items()
    }
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Parley WebSocket", "version": "1", "description": _description()},
        "defaultContentType": "application/json",
        "channels": {
            "socket": {
                "address": "/ws",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
                "bindings": {"ws": {"method": "GET"}},
            }
        },
        "operations": {
            name: {
                "action": name.partition("_")[0],
                "channel": {"$ref": "#/channels/socket"},
                "messages": [{"$ref": f"#/channels/socket/messages/{name}"}],
            }
            for name in messages
        },
        "components": {"messages": messages, "schemas": {"Entry": ENTRY}},
    }


def encoded() -> bytes:
    return orjson.dumps(document())


def _message(kind: str, form: Form, *, is_closed: bool) -> dict[str, Any]:
    schema = payload(kind, form, is_closed=is_closed)
    shown = {**example(schema), "type": kind}
    return {"name": kind, "title": kind, "summary": form[2], "payload": schema, "examples": [{"payload": shown}]}


def _description() -> str:
    codes = ", ".join(f"{code.value} {code.name.lower().replace('_', ' ')}" for code in Close)
    return (
        "Text frames of JSON. Authenticate with `Authorization: Bearer`, or from a browser with the subprotocols "
        f"`{SUBPROTOCOL}` and `bearer.<access token>`. Ignore frames and fields that you do not know. "
        f"Close codes: {codes}."
    )
