"""The one connection of a process to DynamoDB: pooled, timed, counted, guarded.

PynamoDB's low-level `Connection` forms the requests. Here every one of them passes one gate, which refuses writes in a
read-only process, counts, and turns the engine's failures into ours.
"""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any, cast

from botocore.exceptions import NoCredentialsError
from botocore.session import Session
from pynamodb.connection import Connection

from foundation.kernel.randomness import Randomness
from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb.http import LoopPool, Pool
from foundation.stores.dynamodb.signing import Credentials
from foundation.stores.dynamodb.wire import EngineFailure, LoopWire, Wire
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

log = logging.getLogger(__name__)

# Finding a metric by its labels takes longer than counting.
_seconds = cache(DYNAMODB_SECONDS.labels)
_requests = cache(DYNAMODB_REQUESTS.labels)

READ_OPERATIONS = frozenset(
    {
        "GetItem",
        "BatchGetItem",
        "Query",
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


@dataclass(frozen=True, slots=True)
class DynamoDBOptions:
    """Where DynamoDB is and how patient to be. `pool_size` is the number of threads that may call at once."""

    region: str
    endpoint_url: str | None = None
    table_prefix: str = ""
    pool_size: int = 32
    connect_timeout: float = 1.0
    read_timeout: float = 5.0
    attempts: int = 3


class ParleyConnection(Connection):
    """PynamoDB's connection, which knows the tables and forms requests, on a wire of our own, with a gate."""

    def __init__(self, options: DynamoDBOptions, *, read_only: bool) -> None:
        super().__init__(region=options.region, host=options.endpoint_url)
        self.read_only = read_only
        self._options = options
        self._randomness = Randomness()
        self._making = threading.Lock()
        self._made: Wire | None = None
        self._loop_wire: LoopWire | None = None

    @property
    def endpoint(self) -> str:
        """Ours, or the region's own."""
        return self._options.endpoint_url or str(self.client.meta.endpoint_url)

    @property
    def _wire(self) -> Wire:
        """Made once, however many threads ask first."""
        if self._made is None:
            with self._making:
                self._made = self._made or self._make_wire()
        return self._made

    def _make_wire(self) -> Wire:
        options, url = self._options, self.endpoint
        pool = Pool(
            url,
            connect_timeout=options.connect_timeout,
            read_timeout=options.read_timeout,
            size=options.pool_size,
        )
        retry = RetryPolicy(attempts=options.attempts, first_pause=0.1, longest_pause=1.0)
        session = self.session
        return Wire(pool, url=url, region=options.region, credentials=lambda: _credentials(session), retry=retry)

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
        if self._loop_wire is not None:
            self._loop_wire.close()

    def use_loop(self) -> None:
        """Let `dispatch_soon` speak from an event loop. Once, before the first request from there."""
        options, url, session = self._options, self.endpoint, self.session
        pool = LoopPool(url, connect_timeout=options.connect_timeout, read_timeout=options.read_timeout)
        session.get_credentials()  # looked for now, because that may take a while
        self._loop_wire = LoopWire(
            pool,
            url=url,
            region=options.region,
            credentials=lambda: _credentials(session),
            are_stale=lambda: _are_stale(session),
        )

    def dispatch(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Send one request."""
        operation_kwargs = self._permitted(operation_name, operation_kwargs)
        with _counted(operation_name):
            return self._wire.call(operation_name, operation_kwargs)

    async def dispatch_soon(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Send one request from an event loop: no thread to wake, no interpreter to hand over.

        One try is made there. What may pass is tried again in a thread, which has the patience for it; and so is
        everything before `use_loop`.
        """
        operation_kwargs = self._permitted(operation_name, operation_kwargs)
        if self._loop_wire is not None:
            try:
                with _counted(operation_name):
                    return await self._loop_wire.call(operation_name, operation_kwargs)
            except StoreUnavailable as error:
                is_final = isinstance(error.__cause__, EngineFailure) and not error.__cause__.may_pass
                if is_final or self._options.attempts == 1:
                    raise
                log.info("%s is tried again in a thread: %s", operation_name, error.detail)
            return await asyncio.to_thread(self._dispatch_again, operation_name, operation_kwargs)
        return await asyncio.to_thread(self.dispatch, operation_name, operation_kwargs)

    def _dispatch_again(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
        with _counted(operation_name):
            return self._wire.call(operation_name, operation_kwargs, tried=1)

    def _permitted(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if self.read_only and operation not in READ_OPERATIONS:
            DYNAMODB_REQUESTS.labels(operation, "refused").inc()
            raise WriteRefused(f"{operation} through a read-only client")
        if operation == "TransactWriteItems" and "ClientRequestToken" not in parameters:
            # By which DynamoDB knows the repetitions of one request.
            return {"ClientRequestToken": self._randomness.take().hex(), **parameters}
        return parameters


@contextmanager
def _counted(operation: str) -> Iterator[None]:
    """Measure a request, and turn the engine's failure into ours."""
    outcome, started = "ok", perf_counter()
    try:
        yield
    except EngineFailure as error:
        outcome = error.code
        raise _named(error, operation) from error
    except StoreUnavailable:
        outcome = "unavailable"
        raise
    finally:
        _seconds(operation).observe(perf_counter() - started)
        _requests(operation, outcome).inc()


def _credentials(session: Session) -> Credentials:
    """Those of the moment: botocore finds them once and keeps them fresh."""
    found = session.get_credentials()
    if found is None:
        raise NoCredentialsError
    return cast(Credentials, found.get_frozen_credentials())


def _are_stale(session: Session) -> bool:
    """Whether botocore would fetch fresh ones before it gives any."""
    needed = getattr(session.get_credentials(), "refresh_needed", None)
    return needed is not None and bool(needed())


def _named(error: EngineFailure, operation: str) -> Exception:
    """Our name for a failure that DynamoDB reported."""
    code = error.code
    if code == "ConditionalCheckFailedException":
        return ConditionFailed()
    if code == "TransactionCanceledException":
        return TransactionCancelled([_reason(raw) for raw in error.reasons])
    if code in _THROTTLES:
        return Throttled("DynamoDB is over capacity")
    if code in _CONFLICTS:
        return TransactionConflict("Another write is in progress")
    if code == "ResourceNotFoundException":
        return TableMissing("A table is missing: the operator runs `manage.py create_tables`")
    if code in _BUSY:
        return TableBusy(f"DynamoDB is still at work on a table ({code})")
    if code in _TRANSIENT or error.may_pass:
        return StoreUnavailable(f"DynamoDB cannot serve now ({code})")
    if code == "UnknownOperationException":
        return OperationUnknown(f"This engine does not offer {operation}")
    return StoreRefused(f"DynamoDB refused {operation}: {code}: {error.message}")


def _reason(raw: dict[str, Any]) -> CancellationReason | None:
    code = raw.get("Code", "None")
    return None if code == "None" else CancellationReason(code=code, item=raw.get("Item"))
