"""XMPP stanzas at minimal CPU cost: written from templates, read by byte search.

A message's id carries its number and the time it was sent, like a client message id in `bench.frames`.
"""

import base64
import re
from collections.abc import Iterator
from functools import cache

from bench.frames import BODY

HOST, ROOMS, RESOURCE = "localhost", "rooms.localhost", "bench"
HEADER = (
    b"<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' "
    b"to='%b' version='1.0'>" % HOST.encode()
)
FEATURES = b"</stream:features>"
BIND = (
    b"<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>%b</resource></bind></iq>"
    % RESOURCE.encode()
)
PRESENCE = b"<presence/>"
MESSAGE, IQ = b"<message", b"<iq"
ENABLE, ENABLED = b"<enable xmlns='urn:xmpp:sm:3'/>", b"<enabled"
"""Stream management (XEP-0198): once enabled, each side counts stanzas and reports its count on request."""
ACK_REQUEST, ACK = b"<r xmlns='urn:xmpp:sm:3'/>", b"<a "
SUBJECT = b"<subject"
"""The last stanza a room sends to a new occupant."""
FAILURES = (b"<failure", b"<failed", b"<stream:error", b" type='error'")

_ATTRIBUTES = rb"""(?:[^<>'"]++|'[^']*+'|"[^"]*+")*+"""
_OPENING = re.compile(rb"\s*+(?:<\?[^>]*+>\s*+)?<([\w:.-]++)" + _ATTRIBUTES + rb">")
_ID = re.compile(rb" id='(\d+)\.(\d+)'")
_LAST = re.compile(rb"<last>([^<]*)</last>")
_COUNT = re.compile(rb"<a [^>]*?\bh='(\d+)'")
_MICRO = 1_000_000
_STREAM, _SLASH = b"stream:stream", ord("/")


class Messages:
    """Message stanzas to one address, each with a unique id."""

    __slots__ = ("_template", "number")

    def __init__(self, to: str, *, kind: str, first: int = 0) -> None:
        head = f"<message to='{to}' type='{kind}' id='".encode()
        self._template = head + b"%d.%d'><body>" + BODY + b"</body></message>"
        self.number = first

    def next(self, due: float) -> bytes:
        self.number += 1
        return self._template % (self.number, due * _MICRO)


def authentication(name: str, password: str) -> bytes:
    secret = base64.b64encode(f"\0{name}\0{password}".encode())
    return b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>%b</auth>" % secret


def join_request(room: str, nick: str) -> bytes:
    """Join a room without fetching its recent messages; the first to join creates it."""
    extension = "<x xmlns='http://jabber.org/protocol/muc'><history maxstanzas='0'/></x>"
    return f"<presence to='{room}/{nick}'>{extension}</presence>".encode()


def page_request(room: str, after: bytes, *, limit: int = 100) -> bytes:
    """Request the archive page that follows archive id `after`, or the first page if it is empty."""
    position = b"<after>%b</after>" % after if after else b""
    return (
        b"<iq type='set' to='%b' id='page'><query xmlns='urn:xmpp:mam:2'>"
        b"<set xmlns='http://jabber.org/protocol/rsm'><max>%d</max>%b</set></query></iq>"
    ) % (room.encode(), limit, position)


def last_archive_id(stanza: bytes) -> bytes:
    """The archive id of the page's last message, empty for an empty page."""
    found = _LAST.search(stanza)
    return found[1] if found else b""


def handled_count(ack: bytes) -> int:
    """The number of stanzas that the server has handled."""
    found = _COUNT.match(ack)
    if found is None:
        raise ValueError(f"no count: {ack[:300]!r}")
    return int(found[1])


def parse_messages(stanza: bytes) -> Iterator[tuple[int, float]]:
    """Yield number and send time of every message in the stanza, forwarded ones included."""
    found = _ID.findall(stanza)
    if not found or any(failure in stanza for failure in FAILURES):
        raise ValueError(f"not a message sent by this benchmark: {stanza[:300]!r}")
    return ((int(number), int(due) / _MICRO) for number, due in found)


def end_of_stanza(buffer: bytes, start: int) -> int:
    """The end of the stanza or stream header that begins at `start`, or -1 if it is incomplete.

    Every `<` begins a tag: servers escape it in text and attributes.
    """
    opening = _OPENING.match(buffer, start)
    if opening is None:
        return -1
    name, inside = opening[1], opening.end()
    if name == _STREAM or buffer[inside - 2] == _SLASH:
        return inside
    closing = b"</%b>" % name
    end = buffer.find(closing, inside)
    if end < 0:
        return -1
    if buffer.find(b"<%b" % name, inside, end) < 0:
        return end + len(closing)
    return _end_of_nested(buffer, inside, name)


def _end_of_nested(buffer: bytes, inside: int, name: bytes) -> int:
    """The end of a stanza that contains elements of its own name, such as a forwarded message."""
    depth = 1
    for tag in _tags(name).finditer(buffer, inside):
        if tag[1]:
            depth -= 1
        elif buffer[tag.end() - 2] != _SLASH:
            depth += 1
        if not depth:
            return tag.end()
    return -1


@cache
def _tags(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"<(/?)" + name + rb"(?=[\s/>])" + _ATTRIBUTES + rb">")
