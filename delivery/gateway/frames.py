"""The frames to clients: each is encoded once for all its receivers. Frames from clients are in `requests`."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from foundation.kernel.errors import ParleyError, RateLimited, Unavailable
from foundation.kernel.ids import ChatId
from messaging.domain import Sent
from messaging.services.history import Page

log = logging.getLogger(__name__)

WHOLE_TEXT = 0x81
MAX_BATCH = 100


@dataclass(frozen=True)
class Messages:
    """Messages of one chat, ascending, encoded once for any number of connections."""

    chat_id: str
    first: int
    last: int
    bodies: tuple[bytes, ...]

    @cached_property
    def payload(self) -> bytes:
        if len(self.bodies) == 1:
            return b'{"type":"message",' + self.bodies[0][1:]
        chat_id, bodies = self.chat_id.encode(), b",".join(self.bodies)
        return b'{"type":"message_batch","chat_id":"%b","messages":[%b]}' % (chat_id, bodies)

    @cached_property
    def encoded(self) -> bytes:
        return _encode(self.payload)

    def follows(self, other: "Messages") -> bool:
        return self.chat_id == other.chat_id and self.first > other.last


@dataclass(frozen=True, slots=True)
class Plain:
    """Any other frame."""

    payload: bytes

    @property
    def encoded(self) -> bytes:
        return _encode(self.payload)


@dataclass(frozen=True)
class Shared:
    """A frame that several connections get, encoded once."""

    payload: bytes

    @cached_property
    def encoded(self) -> bytes:
        return _encode(self.payload)


Frame = Messages | Plain | Shared
OnNotice = Callable[[Mapping[str, Any]], None]

_sync_batches: WeakKeyDictionary[Page, Shared] = WeakKeyDictionary()


def group_by_connection(
    payloads: Iterable[bytes], *, on_notice: OnNotice | None = None
) -> Iterator[tuple[str, list[Frame]]]:
    """Each connection with its frames, in the order in which the fanout published them.

    Connections with the same frames share them, encoded once. A payload that cannot be read is logged. `on_notice` is
    called with the frames that are no messages.
    """
    waiting: dict[str, list[Frame]] = {}
    for connection_ids, frames in chain.from_iterable(_deliveries(payload, on_notice) for payload in payloads):
        for connection_id in connection_ids:
            waiting.setdefault(connection_id, []).extend(frames)
    shared: dict[tuple[int, ...], list[Frame]] = {}
    for connection_id, frames in waiting.items():
        identity = tuple(map(id, frames))
        if identity not in shared:
            shared[identity] = coalesce(frames)
        yield connection_id, shared[identity]


def _deliveries(payload: bytes, on_notice: OnNotice | None) -> list[tuple[list[str], list[Frame]]]:
    try:
        return [
            (delivery["connection_ids"], delivered(delivery["messages"], on_notice=on_notice))
            for delivery in orjson.loads(payload)["deliveries"]
        ]
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        log.exception("a delivery cannot be read")
        return []


def traceparents_in(payloads: Iterable[bytes]) -> dict[str, str]:
    """The traces of the payloads' messages, by message id, where their senders gave one. For the logs."""
    traceparents: dict[str, str] = {}
    for payload in payloads:
        try:
            for delivery in orjson.loads(payload)["deliveries"]:
                traceparents.update(delivery.get("traceparents", {}))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
            log.debug("a delivery has no traces that can be read")
    return traceparents


def delivered(frames: Sequence[dict[str, Any]], *, on_notice: OnNotice | None = None) -> list[Frame]:
    """The frames that the fanout published, ready to be written."""
    return coalesce(
        [_message(frame) if frame.get("type") == "message" else _notice(frame, on_notice) for frame in frames]
    )


def _notice(frame: dict[str, Any], on_notice: OnNotice | None) -> Plain:
    if on_notice is not None:
        on_notice(frame)
    return plain(frame)


def _message(frame: dict[str, Any]) -> Messages:
    del frame["type"]
    return Messages(frame["chat_id"], frame["sequence"], frame["sequence"], (orjson.dumps(frame),))


def coalesce(frames: Sequence[Frame]) -> list[Frame]:
    """Join consecutive messages of one chat into batches of at most `MAX_BATCH`."""
    ready: list[Frame] = []
    run: list[Messages] = []
    for frame in frames:
        if run and not (
            isinstance(frame, Messages)
            and frame.follows(run[-1])
            and sum(len(each.bodies) for each in run) + len(frame.bodies) <= MAX_BATCH
        ):
            ready.append(_join(run))
            run = []
        if isinstance(frame, Messages):
            run.append(frame)
        else:
            ready.append(frame)
    if run:
        ready.append(_join(run))
    return ready


def _join(run: Sequence[Messages]) -> Messages:
    if len(run) == 1:
        return run[0]
    bodies = tuple(body for messages in run for body in messages.bodies)
    return Messages(run[0].chat_id, run[0].first, run[-1].last, bodies)


def shared(frame: Mapping[str, Any]) -> Shared:
    return Shared(orjson.dumps(frame))


def plain(frame: Mapping[str, Any]) -> Plain:
    return Plain(orjson.dumps(frame))


def sent(client_message_id: str, chat_id: ChatId, answer: Sent) -> Plain:
    """The answer to a draft; without a sequence where it changed nothing. The id is the one that the sender gave."""
    if answer.unchanged:
        about = {"client_message_id": client_message_id, "chat_id": chat_id, "message_id": None, "created_at": None}
        return plain({"type": "ack", **about, **answer.to_json()})
    message = answer.message
    return plain(
        {
            "type": "ack",
            "client_message_id": client_message_id,
            "chat_id": chat_id,
            "message_id": message.message_id,
            "sequence": message.sequence,
            "created_at": message.created_at,
            "duplicate": answer.duplicate,
        }
    )


def sync_batch(chat_id: ChatId, page: Page) -> Shared:
    """One frame for everyone who got this page of the chat."""
    frame = _sync_batches.get(page)
    if frame is None:
        frame = _sync_batches[page] = Shared(
            b'{"type":"sync_batch","chat_id":"%b","messages":%b,"has_more":%b,"latest_sequence":%d}'
            % (chat_id.encode(), page.encoded_messages, b"true" if page.has_more else b"false", page.latest_sequence)
        )
    return frame


def failed(error: ParleyError, **about: str) -> Plain:
    """An error that the client can act on. `about` names its subject: a client message id, a chat.

    Details of an internal error are logged, not sent.
    """
    if error.code == ParleyError.code:
        log.error("a request failed: %s", error.detail, exc_info=error)
        error = ParleyError()
    retryable = isinstance(error, (RateLimited, Unavailable))
    frame = {"type": "error", "code": error.code, "detail": error.detail, "retryable": retryable, **about}
    if error.retry_after is not None:
        frame["retry_after"] = error.retry_after
    return plain(frame)


def _encode(payload: bytes) -> bytes:
    """A whole text frame. Servers do not mask, so it is the same for every client."""
    size = len(payload)
    if size < 126:
        return bytes((WHOLE_TEXT, size)) + payload
    if size < 1 << 16:
        return bytes((WHOLE_TEXT, 126, size >> 8, size & 0xFF)) + payload
    return bytes((WHOLE_TEXT, 127)) + size.to_bytes(8) + payload
