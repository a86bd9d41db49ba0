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
class _Form:
    """What the requests of one operation within one second have in common, under one set of credentials."""

    second: datetime
    secrets: tuple[str, str, str | None]
    key: bytes
    canonical: str
    text: str
    head: str


class Signer:
    """Writes the head of signed requests to one host. Thread-safe: a form is replaced as a whole."""

    def __init__(self, *, host: str, region: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._host = host
        self._region = region
        self._now = now
        self._forms: dict[str, _Form] = {}

    def head(self, operation: str, body: bytes, credentials: Credentials) -> bytes:
        """Everything of the request that comes before its body."""
        second = self._now().replace(microsecond=0)
        secrets = (credentials.access_key, credentials.secret_key, credentials.token)
        form = self._forms.get(operation)
        if form is None or form.second != second or form.secrets != secrets:
            form = self._forms[operation] = self._form(operation, second, secrets)
        request = hashlib.sha256(f"{form.canonical}{hashlib.sha256(body).hexdigest()}".encode()).hexdigest()
        signature = hmac.digest(form.key, f"{form.text}{request}".encode(), "sha256").hex()
        return f"{form.head}{signature}\r\ncontent-length: {len(body)}\r\n\r\n".encode()

    def _form(self, operation: str, second: datetime, secrets: tuple[str, str, str | None]) -> _Form:
        access_key, secret_key, token = secrets
        moment = f"{second:%Y%m%dT%H%M%SZ}"
        headers = {"content-type": CONTENT_TYPE, "host": self._host, "x-amz-date": moment}
        if token:
            headers["x-amz-security-token"] = token
        headers["x-amz-target"] = f"{TARGET}.{operation}"
        names = ";".join(headers)
        signed = "".join(f"{name}:{value}\n" for name, value in headers.items())
        scope = f"{moment[:8]}/{self._region}/{SERVICE}/aws4_request"
        lines = [f"{name}: {value}" for name, value in headers.items()]
        lines.append(f"authorization: {ALGORITHM} Credential={access_key}/{scope}, SignedHeaders={names}, Signature=")
        return _Form(
            second=second,
            secrets=secrets,
            key=_key(secret_key, scope),
            canonical=f"POST\n/\n\n{signed}\n{names}\n",
            text=f"{ALGORITHM}\n{moment}\n{scope}\n",
            head="\r\n".join(("POST / HTTP/1.1", "accept-encoding: identity", *lines)),
        )


def _key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
