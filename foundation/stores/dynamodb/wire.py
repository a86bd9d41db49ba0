"""DynamoDB's JSON protocol over aiohttp, for one event loop.

Every request passes `Wire.call`, which refuses writes in a read-only process, retries, measures, and turns the
engine's failures into ours. botocore resolves endpoint and proxy and keeps credentials fresh; its request pipeline
and its signer are not used, because they cost 0.7 and 0.14 ms of CPU a request (ADR-022).
"""

import asyncio
import hashlib
import hmac
import os
import ssl
import threading
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from time import perf_counter
from typing import Any
from urllib.parse import quote

import aiohttp
import botocore.session
import orjson
from botocore.exceptions import BotoCoreError, NoCredentialsError
from botocore.utils import get_environ_proxies, normalize_url_path
from yarl import URL

from foundation.kernel.ids import RandomBytes
from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb.endpoint import resolve_endpoint
from foundation.stores.errors import (
    CancellationReason,
    ConditionFailed,
    OperationUnknown,
    StoreRefused,
    StoreUnavailable,
    TableBusy,
    TableMissing,
    Throttled,
    TransactionCancelled,
    TransactionConflict,
    WriteRefused,
)
from foundation.stores.metrics import DYNAMODB_REQUESTS, DYNAMODB_SECONDS

ALGORITHM = "AWS4-HMAC-SHA256"
CONTENT_TYPE = "application/x-amz-json-1.0"
SERVICE = "dynamodb"
TARGET = "DynamoDB_20120810"
KEEP_ALIVE_SECONDS = 30.0
READ_OPERATIONS = frozenset(
    {
        "GetItem",
        "BatchGetItem",
        "Query",
        "Scan",
        "TransactGetItems",
        "DescribeTable",
        "ListTables",
        "DescribeTimeToLive",
        "DescribeContinuousBackups",
    }
)
_THROTTLES = {"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"}
_CONFLICTS = {"TransactionConflictException", "TransactionInProgressException"}
_BUSY = {"ResourceInUseException", "ContinuousBackupsUnavailableException"}
_TRANSIENT = {"InternalServerError", "InternalFailure", "ServiceUnavailable", "LimitExceededException"}
_RETRYABLE = _THROTTLES | _TRANSIENT | {"TransactionInProgressException"}
_NO_ANSWER = (OSError, TimeoutError, aiohttp.ClientError)

# Looking a metric up by its labels costs more than counting.
_seconds = cache(DYNAMODB_SECONDS.labels)
_requests = cache(DYNAMODB_REQUESTS.labels)


@dataclass(frozen=True, slots=True)
class DynamoDBOptions:
    """Where DynamoDB is. Timeouts in seconds; `pool_size` bounds the connections; `attempts` bounds the tries."""

    region: str
    endpoint_url: str | None = None
    table_prefix: str = ""
    pool_size: int = 32
    connect_timeout: float = 1.0
    read_timeout: float = 5.0
    attempts: int = 3


class EngineFailure(Exception):
    """DynamoDB answered with an error. `code` is its own name for the reason."""

    def __init__(self, status: int, details: dict[str, Any]) -> None:
        self.status = status
        self.code = str(details.get("__type", "Unknown")).rpartition("#")[2]
        self.message = str(details.get("message") or details.get("Message") or "")
        self.item: dict[str, Any] | None = details.get("Item")
        self.reasons: list[dict[str, Any]] = details.get("CancellationReasons") or []
        super().__init__(f"{self.code}: {self.message}")

    @property
    def is_retryable(self) -> bool:
        is_transient = self.status >= HTTPStatus.INTERNAL_SERVER_ERROR or self.status == HTTPStatus.TOO_MANY_REQUESTS
        return is_transient or self.code in _RETRYABLE


class Wire:
    """One endpoint with pooled connections."""

    def __init__(
        self,
        options: DynamoDBOptions,
        *,
        read_only: bool = False,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.read_only = read_only
        self._options = options
        self._retry = RetryPolicy(attempts=options.attempts, first_pause=0.1, longest_pause=1.0)
        self._sleep = sleep
        self._random = RandomBytes()
        self._opening: asyncio.Task[_Endpoint] | None = None
        self._endpoint: _Endpoint | None = None

    async def call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises `StoreUnavailable` when there is no answer in time, and our name for each of DynamoDB's errors.
        """
        if self.read_only and operation not in READ_OPERATIONS:
            DYNAMODB_REQUESTS.labels(operation, "refused").inc()
            raise WriteRefused(f"{operation} through a read-only client")
        if operation == "TransactWriteItems" and "ClientRequestToken" not in request:
            # DynamoDB recognises a retried transaction by its token.
            request = {"ClientRequestToken": self._random.take().hex(), **request}
        outcome, started = "ok", perf_counter()
        try:
            return await self._call(operation, orjson.dumps(request))
        except EngineFailure as error:
            outcome = error.code
            raise _named(error, operation) from error
        except StoreUnavailable:
            outcome = "unavailable"
            raise
        except asyncio.CancelledError:
            # The caller's own deadline: an engine that hangs must not count as one that answers.
            outcome = "cancelled"
            raise
        finally:
            _seconds(operation).observe(perf_counter() - started)
            _requests(operation, outcome).inc()

    async def close(self) -> None:
        if self._endpoint is not None:
            await self._endpoint.session.close()

    async def _call(self, operation: str, body: bytes) -> dict[str, Any]:
        attempt = 0
        while True:
            try:
                return await self._exchange(operation, body)
            except _NO_ANSWER as error:
                failure: Exception = StoreUnavailable(
                    f"DynamoDB did not answer ({type(error.__cause__ or error).__name__})"
                )
            except BotoCoreError as error:
                failure = StoreUnavailable(f"AWS credentials are not available ({type(error).__name__})")
            except EngineFailure as error:
                if not error.is_retryable:
                    raise
                failure = error
            attempt += 1
            if attempt >= self._retry.attempts:
                raise failure
            await self._sleep(self._retry.pause(attempt - 1))

    async def _exchange(self, operation: str, body: bytes) -> dict[str, Any]:
        endpoint = self._endpoint or await self._open()
        if endpoint.session.closed:
            raise StoreUnavailable("The client of DynamoDB is closed")
        headers = endpoint.signer.headers(operation, body, await _frozen(endpoint.credentials))
        async with endpoint.session.post(
            endpoint.url, data=body, headers=headers, proxy=endpoint.proxy, allow_redirects=False
        ) as response:
            answer = await response.read()
        if response.status != HTTPStatus.OK:
            raise EngineFailure(response.status, _details(answer))
        try:
            values: dict[str, Any] = orjson.loads(answer)
        except orjson.JSONDecodeError as error:
            raise StoreUnavailable("DynamoDB's answer is not JSON") from error
        return values

    async def _open(self) -> "_Endpoint":
        """Open once, also for calls that arrive meanwhile. After a failure the next call tries again."""
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._connect())
        opening = self._opening
        try:
            self._endpoint = await asyncio.shield(opening)
        except BaseException:
            if opening.done() and self._opening is opening:
                self._opening = None
            raise
        return self._endpoint

    async def _connect(self) -> "_Endpoint":
        """Find endpoint and credentials as boto3 would, in a thread: botocore reads files or asks the network."""
        options = self._options
        url, credentials = await asyncio.to_thread(self._resolve)
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=options.pool_size,
                keepalive_timeout=KEEP_ALIVE_SECONDS,
                ssl=ssl.create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE")),
            ),
            timeout=aiohttp.ClientTimeout(total=options.read_timeout, sock_connect=options.connect_timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("accept", "accept-encoding", "user-agent"),
        )
        weakref.finalize(self, _close_session, session, asyncio.get_running_loop(), threading.get_ident())
        signer = Signer(host=_host(url), region=options.region, path=url.raw_path)
        return _Endpoint(url, get_environ_proxies(str(url)).get(url.scheme), credentials, signer, session)

    def _resolve(self) -> tuple[URL, Any]:
        """Raises `EndpointUnusable`, and botocore's errors of credentials."""
        url = resolve_endpoint(self._options.region, self._options.endpoint_url)
        credentials = botocore.session.get_session().get_credentials()
        if credentials is None:
            raise NoCredentialsError
        return url, credentials


@dataclass(frozen=True, slots=True)
class _Endpoint:
    url: URL
    proxy: str | None
    credentials: Any
    signer: "Signer"
    session: aiohttp.ClientSession


def _close_session(session: aiohttp.ClientSession, loop: asyncio.AbstractEventLoop, loop_thread: int) -> None:
    """Close the session of a wire that was not closed, when the wire is collected or the process ends."""
    if session.closed or not loop.is_running():
        return
    if threading.get_ident() == loop_thread:
        loop.create_task(session.close())
    else:
        asyncio.run_coroutine_threadsafe(session.close(), loop).result(timeout=1.0)


async def _frozen(credentials: Any) -> Any:
    """The credentials of the moment. Refreshing them may take seconds and happens in a thread."""
    if getattr(credentials, "refresh_needed", bool)():
        return await asyncio.to_thread(credentials.get_frozen_credentials)
    return credentials.get_frozen_credentials()


@dataclass(frozen=True, slots=True)
class _Template:
    """What the requests of one operation within one second share, under one set of credentials."""

    second: datetime
    secrets: tuple[str, str, str | None]
    key: bytes
    canonical: str
    string_to_sign: str
    authorization: str
    headers: dict[str, str]


class Signer:
    """Signature Version 4 for a POST of JSON to one URL, the only form of DynamoDB's requests.

    botocore's signer gives the same signatures, which a test compares, at nine times the CPU (ADR-022).
    """

    def __init__(
        self, *, host: str, region: str, path: str = "/", now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._host = host
        # An endpoint behind a gateway has a path. What it escapes is escaped again in a signature.
        self._path = quote(normalize_url_path(path), safe="/~")
        self._region = region
        self._now = now
        self._templates: dict[str, _Template] = {}

    def headers(self, operation: str, body: bytes, credentials: Any) -> dict[str, str]:
        """The request's headers, signature included."""
        second = self._now().replace(microsecond=0)
        secrets = (credentials.access_key, credentials.secret_key, credentials.token)
        template = self._templates.get(operation)
        if template is None or template.second != second or template.secrets != secrets:
            template = self._templates[operation] = self._template(operation, second, secrets)
        request = hashlib.sha256(f"{template.canonical}{hashlib.sha256(body).hexdigest()}".encode()).hexdigest()
        signature = hmac.digest(template.key, f"{template.string_to_sign}{request}".encode(), "sha256").hex()
        return {**template.headers, "authorization": f"{template.authorization}{signature}"}

    def _template(self, operation: str, second: datetime, secrets: tuple[str, str, str | None]) -> _Template:
        access_key, secret_key, token = secrets
        timestamp = f"{second:%Y%m%dT%H%M%SZ}"
        headers = {"content-type": CONTENT_TYPE, "host": self._host, "x-amz-date": timestamp}
        if token:
            headers["x-amz-security-token"] = token
        headers["x-amz-target"] = f"{TARGET}.{operation}"
        names = ";".join(headers)
        signed = "".join(f"{name}:{value}\n" for name, value in headers.items())
        scope = f"{timestamp[:8]}/{self._region}/{SERVICE}/aws4_request"
        return _Template(
            second=second,
            secrets=secrets,
            key=_key(secret_key, scope),
            canonical=f"POST\n{self._path}\n\n{signed}\n{names}\n",
            string_to_sign=f"{ALGORITHM}\n{timestamp}\n{scope}\n",
            authorization=f"{ALGORITHM} Credential={access_key}/{scope}, SignedHeaders={names}, Signature=",
            headers=headers,
        )


def _key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _host(url: URL) -> str:
    """The `Host` header that aiohttp sends, which is signed."""
    host = url.raw_host or ""
    host = f"[{host}]" if ":" in host else host
    return host if url.is_default_port() else f"{host}:{url.port}"


def _details(answer: bytes) -> dict[str, Any]:
    """What an error says; one from a proxy may not be JSON."""
    try:
        details = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return {}
    return details if isinstance(details, dict) else {}


def _named(error: EngineFailure, operation: str) -> Exception:
    code = error.code
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(error.item)
    if code == "TransactionCanceledException":
        return TransactionCancelled([_reason(raw) for raw in error.reasons])
    if code in _THROTTLES:
        return Throttled("DynamoDB is over capacity")
    if code in _CONFLICTS:
        return TransactionConflict("Another write is in progress")
    if code == "ResourceNotFoundException":
        return TableMissing("A table is missing: the operator runs `manage.py create_tables`")
    if code in _BUSY:
        return TableBusy(f"DynamoDB is still changing a table ({code})")
    if code in _TRANSIENT or error.is_retryable:
        return StoreUnavailable(f"DynamoDB cannot serve now ({code})")
    if code == "UnknownOperationException":
        return OperationUnknown(f"This engine does not offer {operation}")
    return StoreRefused(f"DynamoDB refused {operation}: {code}: {error.message}")


def _reason(raw: dict[str, Any]) -> CancellationReason | None:
    code = raw.get("Code", "None")
    return None if code == "None" else CancellationReason(code=code, item=raw.get("Item"))
