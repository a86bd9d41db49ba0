"""XMPP's stanzas as cheaply as a client can write and read them: templates out, byte searches in.

A message's id carries its number and the moment it was sent, as a draft's does on the way to Parley.
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
"""Stream management (XEP-0198): from then on both sides count stanzas, and tell their count to who asks."""
ASK, ANSWER = b"<r xmlns='urn:xmpp:sm:3'/>", b"<a "
SUBJECT = b"<subject"
"""What a room says last to who enters it."""
FAILURES = (b"<failure", b"<failed", b"<stream:error", b" type='error'")

_ATTRIBUTES = rb"""(?:[^<>'"]++|'[^']*+'|"[^"]*+")*+"""
_OPENING = re.compile(rb"\s*+(?:<\?[^>]*+>\s*+)?<([\w:.-]++)" + _ATTRIBUTES + rb">")
_ID = re.compile(rb" id='(\d+)\.(\d+)'")
_LAST = re.compile(rb"<last>([^<]*)</last>")
_COUNT = re.compile(rb"<a [^>]*?\bh='(\d+)'")
_MICRO = 1_000_000
_STREAM, _SLASH = b"stream:stream", ord("/")


class Messages:
    """Stanzas that send the same text to one address, each with an id of its own."""

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


def entrance(room: str, nick: str) -> bytes:
    """Into a room, made by the first who enters, without its last messages."""
    inside = "<x xmlns='http://jabber.org/protocol/muc'><history maxstanzas='0'/></x>"
    return f"<presence to='{room}/{nick}'>{inside}</presence>".encode()


def page_request(room: str, after: bytes, *, limit: int = 100) -> bytes:
    """What the room's archive has after that id of its own, from its beginning for an empty one."""
    place = b"<after>%b</after>" % after if after else b""
    return (
        b"<iq type='set' to='%b' id='page'><query xmlns='urn:xmpp:mam:2'>"
        b"<set xmlns='http://jabber.org/protocol/rsm'><max>%d</max>%b</set></query></iq>"
    ) % (room.encode(), limit, place)


def last_of_page(stanza: bytes) -> bytes:
    """The archive's id of the page's last message, empty where it has none."""
    found = _LAST.search(stanza)
    return found[1] if found else b""


def count_in(answer: bytes) -> int:
    """How many stanzas the server says that it has handled."""
    found = _COUNT.match(answer)
    if found is None:
        raise ValueError(f"no count: {answer[:300]!r}")
    return int(found[1])


def arrivals(stanza: bytes) -> Iterator[tuple[int, float]]:
    """Number and time of sending of the message, or of each that was forwarded in what is given."""
    found = _ID.findall(stanza)
    if not found or any(failure in stanza for failure in FAILURES):
        raise ValueError(f"not a message sent by this benchmark: {stanza[:300]!r}")
    return ((int(number), int(due) / _MICRO) for number, due in found)


def end_of_stanza(buffer: bytes, place: int) -> int:
    """Where the stanza that begins at `place` ends, or -1 when it has not all come. A stream's header is one, too.

    A server writes no `<` that is not a tag's: in texts and attributes it is escaped.
    """
    opening = _OPENING.match(buffer, place)
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
    """Where one that holds others of its name ends: a message that forwards a message."""
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
