"""What one `web` process sends to another: signed, addressed, numbered.

An envelope holds parcels (a batch of drafts, an answer). Its MAC is made with a key that is derived from `SECRET_KEY`.
A process names its key in its epoch, so that others hand nothing over that it could not verify: while keys are rotated,
those who know the former key sign with it for those who have no other.
"""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

VERSION = 1
MAX_BYTES = 256 * 1024
HEADER_BYTES = 1024
"""What an envelope holds besides its parcels, at most."""
_PURPOSE = b"parley hand-over"
_MAC_BYTES = 32


class BadEnvelope(Exception):
    """Forged, damaged, or for somebody else. `reason` is a label for the metric."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Envelope:
    """`number` grows with every envelope from one name to another. `at` is a Unix time."""

    version: int
    sender: str
    to: str
    number: int
    at: float
    parcels: Sequence[dict[str, Any]]


class Envelopes:
    """Seals and opens with keys derived from `secret`; opens also what was sealed with a fallback.

    `version` is the one that this process writes and knows.
    """

    def __init__(self, secret: str, fallbacks: Sequence[str] = (), *, version: int = VERSION) -> None:
        self.version = version
        keys = [hmac.digest(each.encode(), _PURPOSE, "sha256") for each in (secret, *fallbacks)]
        self._keys = {hashlib.sha256(key).hexdigest()[:8]: key for key in keys}
        self._own = next(iter(self._keys))

    def new_name(self, gateway_id: str) -> str:
        """`gateway_id:epoch`, with an epoch that was never used before and tells the key."""
        return f"{gateway_id}:{secrets.token_hex(4)}-{self._own}"

    def can_verify(self, name: str) -> bool:
        """Whether that process's key is known here: then it can verify what is sealed for it."""
        return _key_id(name) in self._keys

    def seal(self, *, sender: str, to: str, number: int, at: float, parcels: Sequence[bytes]) -> bytes:
        key_id = _key_id(to) if self.can_verify(to) else self._own
        body = orjson.dumps(
            {
                "version": self.version,
                "from": sender,
                "to": to,
                "number": number,
                "at": at,
                "parcels": [orjson.Fragment(parcel) for parcel in parcels],
            }
        )
        return hmac.digest(self._keys[key_id], body, "sha256") + body

    def open(self, data: bytes, *, to: str) -> Envelope:
        """Raises `BadEnvelope`. The version may be an unknown one."""
        if len(data) > MAX_BYTES:
            raise BadEnvelope("too_large")
        mac, body = data[:_MAC_BYTES], data[_MAC_BYTES:]
        if not any(hmac.compare_digest(mac, hmac.digest(key, body, "sha256")) for key in self._keys.values()):
            raise BadEnvelope("forged")
        try:
            content = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise BadEnvelope("malformed") from error
        match content:
            case {
                "version": int(version),
                "from": str(sender),
                "to": str(addressee),
                "number": int(number),
                "at": float(at),
                "parcels": list(parcels),
            }:
                if addressee != to:
                    raise BadEnvelope("other_addressee")
                return Envelope(version, sender, addressee, number, at, parcels)
        raise BadEnvelope("malformed")


def _key_id(name: str) -> str:
    return name.rpartition("-")[2]
