"""Parses clients' frames into requests: each type of frame has its fields and its parser in one table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from foundation.kernel.errors import Malformed
from foundation.kernel.ids import ChatId, UserId
from messaging.domain import MAX_PAGE, MAX_SEQUENCE, TEXT, Action, Kind

_LONGEST_NAME = 64
_LONGEST_ID = 128

Fields = Mapping[str, Any]


class BadFrame(Malformed):
    """A frame is not JSON, of no known type, or has a field missing, unknown or of the wrong type."""

    title = "The frame cannot be understood"

    def __init__(self, detail: str, *, about: Mapping[str, str] | None = None) -> None:
        """`about` names the subject, if the frame shows it, so that the client knows what was refused."""
        super().__init__(detail)
        self.about = dict(about or {})


@dataclass(frozen=True, slots=True)
class SendMessage:
    client_message_id: str
    chat_id: ChatId
    content: str
    content_type: str
    reply_to: int | None = None
    mentions: tuple[UserId, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeMessage:
    """An edit, a deletion, a reaction or a pin, by `kind`."""

    kind: Kind
    client_message_id: str
    chat_id: ChatId
    target: int
    content: str = ""
    mentions: tuple[UserId, ...] = ()
    emoji: str | None = None
    action: Action | None = None


@dataclass(frozen=True, slots=True)
class Ack:
    """`read` is false from clients that tell by `read` frames what was read, and by nothing else."""

    chat_id: ChatId
    sequence: int
    read: bool = True


@dataclass(frozen=True, slots=True)
class Read:
    chat_id: ChatId
    sequence: int


@dataclass(frozen=True, slots=True)
class SyncRequest:
    chat_id: ChatId
    last_acked_sequence: int
    limit: int


@dataclass(frozen=True, slots=True)
class Typing:
    chat_id: ChatId
    active: bool


@dataclass(frozen=True, slots=True)
class WatchPresence:
    chat_id: ChatId
    user_ids: tuple[UserId, ...]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    pass


@dataclass(frozen=True, slots=True)
class Authenticate:
    access_token: str


Request = SendMessage | ChangeMessage | Ack | Read | SyncRequest | Typing | WatchPresence | Heartbeat | Authenticate


def _send_message(frame: Fields) -> SendMessage:
    if frame.get("attachments", []) != []:
        raise BadFrame("attachments must be empty: this server takes none yet")
    return SendMessage(
        client_message_id=text(frame, "client_message_id"),
        chat_id=chat(frame),
        content=text(frame, "content"),
        content_type=text(frame, "content_type", default=TEXT),
        reply_to=whole(frame, "reply_to", least=1, most=MAX_SEQUENCE) if "reply_to" in frame else None,
        mentions=mentions(frame),
    )


def _edit_message(frame: Fields) -> ChangeMessage:
    return _change(Kind.EDIT, frame, content=text(frame, "content"), mentions=mentions(frame))


def _delete_message(frame: Fields) -> ChangeMessage:
    return _change(Kind.DELETION, frame)


def _react(frame: Fields) -> ChangeMessage:
    return _change(Kind.REACTION, frame, emoji=text(frame, "emoji"), action=action(frame))


def _pin(frame: Fields) -> ChangeMessage:
    return _change(Kind.PIN, frame, action=action(frame))


def _change(kind: Kind, frame: Fields, **fields: Any) -> ChangeMessage:
    return ChangeMessage(
        kind=kind,
        client_message_id=client_message_id(frame),
        chat_id=chat(frame),
        target=whole(frame, "target", least=1, most=MAX_SEQUENCE),
        **fields,
    )


def _ack(frame: Fields) -> Ack:
    return Ack(chat(frame), sequence(frame), read=switch(frame, "read", default=True))


def _read(frame: Fields) -> Read:
    return Read(chat(frame), sequence(frame))


def _sync_request(frame: Fields) -> SyncRequest:
    return SyncRequest(
        chat_id=chat(frame),
        last_acked_sequence=whole(frame, "last_acked_sequence", least=0, most=MAX_SEQUENCE),
        limit=whole(frame, "limit", least=1, most=MAX_PAGE, default=MAX_PAGE),
    )


def _typing(frame: Fields) -> Typing:
    return Typing(chat(frame), switch(frame, "active"))


def _watch_presence(frame: Fields) -> WatchPresence:
    return WatchPresence(chat(frame), tuple(map(UserId, texts(frame, "user_ids"))))


def _heartbeat(frame: Fields) -> Heartbeat:
    return Heartbeat()


def _authenticate(frame: Fields) -> Authenticate:
    return Authenticate(text(frame, "access_token"))


_DRAFT = ("client_message_id", "chat_id")

_FORMS: dict[str, tuple[frozenset[str], Callable[[Fields], Request]]] = {
    kind: (frozenset(("type", *names)), parser)
    for kind, names, parser in (
        (
            "send_message",
            (*_DRAFT, "content", "content_type", "reply_to", "mentions", "attachments"),
            _send_message,
        ),
        ("edit_message", (*_DRAFT, "target", "content", "mentions"), _edit_message),
        ("delete_message", (*_DRAFT, "target"), _delete_message),
        ("react", (*_DRAFT, "target", "emoji", "action"), _react),
        ("pin", (*_DRAFT, "target", "action"), _pin),
        ("ack", ("chat_id", "sequence", "read"), _ack),
        ("read", ("chat_id", "sequence"), _read),
        ("sync_request", ("chat_id", "last_acked_sequence", "limit"), _sync_request),
        ("typing", ("chat_id", "active"), _typing),
        ("watch_presence", ("chat_id", "user_ids"), _watch_presence),
        ("heartbeat", (), _heartbeat),
        ("authenticate", ("access_token",), _authenticate),
    )
}


def parse(payload: str) -> Request:
    """Parse a client's frame. Raises `BadFrame`."""
    try:
        frame = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise BadFrame("The frame is not JSON") from error
    if not isinstance(frame, dict):
        raise BadFrame("The frame is not an object")
    kind = frame.get("type")
    form = _FORMS.get(kind) if isinstance(kind, str) else None
    if form is None:
        raise BadFrame("The frame's type is not known")
    try:
        return _read_form(*form, frame)
    except BadFrame as error:
        raise BadFrame(error.detail, about=_subject(frame)) from None


def _read_form(names: frozenset[str], parser: Callable[[Fields], Request], frame: Fields) -> Request:
    if not names.issuperset(frame):
        unknown = next(name for name in frame if name not in names)
        raise BadFrame(f"{unknown[:_LONGEST_NAME]} is not a field of {frame['type']}")
    return parser(frame)


def _subject(frame: Fields) -> dict[str, str]:
    named = {name: frame.get(name) for name in _DRAFT}
    return {name: value for name, value in named.items() if isinstance(value, str) and len(value) <= _LONGEST_ID}


def chat(frame: Fields) -> ChatId:
    return ChatId(text(frame, "chat_id"))


def client_message_id(frame: Fields) -> str:
    """Changes by REST need no id. Those by frames do: their answers are told apart by it."""
    if not (value := text(frame, "client_message_id")):
        raise BadFrame("client_message_id must be 1 to 128 visible ASCII characters")
    return value


def sequence(frame: Fields) -> int:
    return whole(frame, "sequence", least=1, most=MAX_SEQUENCE)


def mentions(frame: Fields) -> tuple[UserId, ...]:
    return tuple(map(UserId, texts(frame, "mentions"))) if "mentions" in frame else ()


def action(frame: Fields) -> Action:
    try:
        return Action(text(frame, "action"))
    except ValueError as error:
        raise BadFrame(f"action must be one of: {', '.join(Action)}") from error


def text(frame: Fields, name: str, *, default: str | None = None) -> str:
    value = frame.get(name, default)
    if not isinstance(value, str):
        raise BadFrame(f"{name} must be a string")
    return value


def texts(frame: Fields, name: str) -> list[str]:
    value = frame.get(name)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadFrame(f"{name} must be a list of strings")
    return value


def switch(frame: Fields, name: str, *, default: bool | None = None) -> bool:
    value = frame.get(name, default)
    if not isinstance(value, bool):
        raise BadFrame(f"{name} must be true or false")
    return value


def whole(frame: Fields, name: str, *, least: int, most: int, default: int | None = None) -> int:
    value = frame.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise BadFrame(f"{name} must be a whole number from {least} to {most}")
    return value
