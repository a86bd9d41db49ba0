"""The one connection of a process to DynamoDB: pooled, timed, counted, guarded.

PynamoDB's low-level `Connection` forms the requests. Here every one of them passes one gate, which refuses writes in a
read-only process, counts, and turns the engine's failures into ours.
"""

import threading
from dataclasses import dataclass
from time import perf_counter
from typing import Any, cast

from botocore.exceptions import NoCredentialsError
from botocore.session import Session
from pynamodb.connection import Connection

from config.kernel.randomness import Randomness
from config.kernel.retry import RetryPolicy
from config.stores.dynamodb.http import Pool
from config.stores.dynamodb.signing import Credentials
from config.stores.dynamodb.wire import EngineFailure, Wire
from config.stores.errors import (
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
from config.stores.metrics import DYNAMODB_REQUESTS, DYNAMODB_SECONDS

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

    def dispatch(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Send one request."""
        if self.read_only and operation_name not in READ_OPERATIONS:
            DYNAMODB_REQUESTS.labels(operation_name, "refused").inc()
            raise WriteRefused(f"{operation_name} through a read-only client")
        if operation_name == "TransactWriteItems":
            # By which DynamoDB knows the repetitions of one request that the wire makes.
            operation_kwargs = {"ClientRequestToken": self._randomness.take().hex(), **operation_kwargs}
        outcome, started = "ok", perf_counter()
        try:
            return self._wire.call(operation_name, operation_kwargs)
        except EngineFailure as error:
            outcome = error.code
            raise _named(error, operation_name) from error
        except StoreUnavailable:
            outcome = "unavailable"
            raise
        finally:
            DYNAMODB_SECONDS.labels(operation_name).observe(perf_counter() - started)
            DYNAMODB_REQUESTS.labels(operation_name, outcome).inc()


def _credentials(session: Session) -> Credentials:
    """Those of the moment: botocore finds them once and keeps them fresh."""
    found = session.get_credentials()
    if found is None:
        raise NoCredentialsError
    return cast(Credentials, found.get_frozen_credentials())


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
