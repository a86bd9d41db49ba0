"""DynamoDB's JSON protocol: a request of plain values goes out signed, an answer of plain values comes back.

botocore would walk the service's model for every value, evaluate endpoint rules over every item of a transaction and
pass each request through dozens of hooks: three quarters of the CPU of a request (measured, docs/performance.md), for
nothing that this protocol needs. It still finds the endpoint and keeps the credentials fresh.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import orjson
from botocore.exceptions import BotoCoreError

from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb.http import Answer, LoopPool, Pool
from foundation.stores.dynamodb.signing import Credentials, Signer
from foundation.stores.errors import StoreUnavailable

OK = 200
TOO_MANY = 429
BROKEN = 500
_TRY_AGAIN = {
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "LimitExceededException",
    "TransactionInProgressException",
    "InternalServerError",
    "InternalFailure",
    "ServiceUnavailable",
}


class EngineFailure(Exception):
    """DynamoDB answered that it did not do what was asked. `code` is its own name for the reason."""

    def __init__(self, status: int, details: dict[str, Any]) -> None:
        self.status = status
        self.code = str(details.get("__type", "Unknown")).rpartition("#")[2]
        self.message = str(details.get("message") or details.get("Message") or "")
        self.reasons: list[dict[str, Any]] = details.get("CancellationReasons") or []
        super().__init__(f"{self.code}: {self.message}")

    @property
    def may_pass(self) -> bool:
        return self.status >= BROKEN or self.status == TOO_MANY or self.code in _TRY_AGAIN


class Wire:
    """One endpoint. Thread-safe. What may pass is tried again, a bounded number of times with jittered pauses."""

    def __init__(
        self,
        pool: Pool,
        *,
        url: str,
        region: str,
        credentials: Callable[[], Credentials],
        retry: RetryPolicy,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._pool = pool
        self._signer = Signer(host=urlsplit(url).netloc, region=region)
        self._credentials = credentials
        self._retry = retry
        self._sleep = sleep

    def close(self) -> None:
        self._pool.close()

    def call(self, operation: str, parameters: dict[str, Any], *, tried: int = 0) -> dict[str, Any]:
        """Raises `EngineFailure` for a refusal, and `StoreUnavailable` when there is no answer at all.

        `tried` says how many of the tries were made elsewhere.
        """
        body = orjson.dumps(parameters)
        failure: Exception = AssertionError("a policy has one attempt at least")
        for _ in self._retry.tries(self._sleep, tried=tried):
            try:
                answer = self._pool.exchange(self._signer.head(operation, body, self._credentials()) + body)
            except OSError as error:
                failure = StoreUnavailable(f"DynamoDB did not answer ({type(error).__name__})")
            except BotoCoreError as error:
                failure = StoreUnavailable(f"No AWS credentials can be had now ({type(error).__name__})")
            else:
                if answer.status == OK:
                    return _values(answer)
                refusal = failure = EngineFailure(answer.status, _details(answer))
                if not refusal.may_pass:
                    break
        raise failure


class LoopWire:
    """The same endpoint from an event loop, without patience: one try. For the loop's thread alone."""

    def __init__(
        self,
        pool: LoopPool,
        *,
        url: str,
        region: str,
        credentials: Callable[[], Credentials],
        are_stale: Callable[[], bool],
    ) -> None:
        self._pool = pool
        self._signer = Signer(host=urlsplit(url).netloc, region=region)
        self._credentials = credentials
        self._are_stale = are_stale

    def close(self) -> None:
        self._pool.close()

    async def call(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Raises `EngineFailure` for a refusal, and `StoreUnavailable` when there is no answer at all."""
        body = orjson.dumps(parameters)
        try:
            # Fetching fresh ones may take seconds.
            credentials = await asyncio.to_thread(self._credentials) if self._are_stale() else self._credentials()
            answer = await self._pool.exchange(self._signer.head(operation, body, credentials) + body)
        except OSError as error:
            raise StoreUnavailable(f"DynamoDB did not answer ({type(error).__name__})") from error
        except BotoCoreError as error:
            raise StoreUnavailable(f"No AWS credentials can be had now ({type(error).__name__})") from error
        if answer.status == OK:
            return _values(answer)
        raise EngineFailure(answer.status, _details(answer))


def _values(answer: Answer) -> dict[str, Any]:
    try:
        values: dict[str, Any] = orjson.loads(answer.body)
    except orjson.JSONDecodeError as error:
        raise StoreUnavailable("DynamoDB's answer cannot be read") from error
    return values


def _details(answer: Answer) -> dict[str, Any]:
    """What a refusal says; a proxy on the way may have said something that is not JSON."""
    try:
        details = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return {}
    return details if isinstance(details, dict) else {}
