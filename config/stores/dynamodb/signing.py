"""AWS Signature Version 4, for the one form that DynamoDB's requests have: a POST of JSON to the root.

botocore's signer serves every service and form, and takes twenty times as long. A test holds this one to its results.
"""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

ALGORITHM = "AWS4-HMAC-SHA256"
CONTENT_TYPE = "application/x-amz-json-1.0"
SERVICE = "dynamodb"
TARGET = "DynamoDB_20120810"


class Credentials(Protocol):
    """A moment's credentials; botocore keeps them fresh."""

    @property
    def access_key(self) -> str: ...

    @property
    def secret_key(self) -> str: ...

    @property
    def token(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class _Key:
    """Good for one day and one secret."""

    day: str
    secret: str
    key: bytes


class Signer:
    """Writes the head of signed requests to one host. Thread-safe: a key is replaced as a whole."""

    def __init__(self, *, host: str, region: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._host = host
        self._region = region
        self._now = now
        self._key = _Key("", "", b"")

    def head(self, operation: str, body: bytes, credentials: Credentials) -> bytes:
        """Everything of the request that comes before its body."""
        moment = f"{self._now():%Y%m%dT%H%M%SZ}"
        headers = {"content-type": CONTENT_TYPE, "host": self._host, "x-amz-date": moment}
        if credentials.token:
            headers["x-amz-security-token"] = credentials.token
        headers["x-amz-target"] = f"{TARGET}.{operation}"
        authorization = self._authorization(headers, moment, body, credentials)
        lines = [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"authorization: {authorization}", f"content-length: {len(body)}", "accept-encoding: identity"]
        return "\r\n".join(("POST / HTTP/1.1", *lines, "", "")).encode()

    def _authorization(self, headers: dict[str, str], moment: str, body: bytes, credentials: Credentials) -> str:
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        canonical = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
        scope = f"{moment[:8]}/{self._region}/{SERVICE}/aws4_request"
        text = f"{ALGORITHM}\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._key_of(moment[:8], credentials.secret_key), text.encode(), "sha256").hex()
        return f"{ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"

    def _key_of(self, day: str, secret: str) -> bytes:
        known = self._key
        if (known.day, known.secret) != (day, secret):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, SERVICE, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            known = self._key = _Key(day, secret, key)
        return known.key
