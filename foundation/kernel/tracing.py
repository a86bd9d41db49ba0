"""W3C Trace Context: which trace of the caller a request belongs to, as its `traceparent` header says.

Parley makes no spans. It takes a `traceparent` from requests and handshakes, logs its trace id, and passes it on
unchanged with the messages that come of them.
"""

import re
from contextvars import ContextVar

TRACEPARENT_HEADER = "traceparent"
"""The same in HTTP and in Kafka."""

TRACEPARENT: ContextVar[str | None] = ContextVar("traceparent", default=None)
"""That of the REST request that is being served, also in the threads and tasks that serve it."""

_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2})(-.*)?", re.ASCII)
_MAX_CHARACTERS = 256


def parse_traceparent(text: str) -> str | None:
    """The header in the form of version 00, 55 characters long; None if it is malformed, which is no error.

    Later versions may add fields at the end, which are dropped.
    """
    if len(text) > _MAX_CHARACTERS or (found := _FORM.fullmatch(text)) is None:
        return None
    return None if found[2] and text.startswith("00") else f"00-{found[1]}"


def trace_id_of(traceparent: str) -> str:
    return traceparent[3:35]
