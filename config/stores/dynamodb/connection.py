"""The one connection of a process to DynamoDB: pooled, timed, counted, guarded.

PynamoDB's low-level `Connection` does the protocol. Here every request passes one gate, which refuses writes in a
read-only process, counts, and turns the engine's failures into ours.
"""

import threading
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection import Connection

from config.stores.dynamodb.lean import make_lean
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
    """A PynamoDB connection with a gate."""

    def __init__(self, options: DynamoDBOptions, *, read_only: bool) -> None:
        super().__init__(
            region=options.region,
            host=options.endpoint_url,
            connect_timeout_seconds=options.connect_timeout,
            read_timeout_seconds=options.read_timeout,
            retry_configuration={"total_max_attempts": options.attempts, "mode": "standard"},
            max_pool_connections=options.pool_size,
        )
        self.read_only = read_only
        self._making = threading.Lock()
        self._lean: Any = None

    @property
    def client(self) -> Any:
        """PynamoDB's client on a lean wire, made once however many threads ask first, and anew without credentials."""
        if self._lean is not None and self._lean._request_signer._credentials:
            return self._lean
        with self._making:
            client = super().client
            if client is not self._lean:
                make_lean(client)
                self._lean = client
            return client

    def dispatch(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Send one request. PynamoDB's own version would also log every item at DEBUG: message texts stay private."""
        if self.read_only and operation_name not in READ_OPERATIONS:
            DYNAMODB_REQUESTS.labels(operation_name, "refused").inc()
            raise WriteRefused(f"{operation_name} through a read-only client")
        outcome, started = "ok", perf_counter()
        try:
            return dict(self.client._make_api_call(operation_name, operation_kwargs))
        except ClientError as error:
            outcome = error.response.get("Error", {}).get("Code", "Unknown")
            raise _named(error, operation_name) from error
        except BotoCoreError as error:
            outcome = type(error).__name__
            raise StoreUnavailable(f"DynamoDB did not answer ({outcome})") from error
        finally:
            DYNAMODB_SECONDS.labels(operation_name).observe(perf_counter() - started)
            DYNAMODB_REQUESTS.labels(operation_name, outcome).inc()


def _named(error: ClientError, operation: str) -> Exception:
    """Our name for a failure that DynamoDB reported."""
    response: dict[str, Any] = dict(error.response)
    code = response.get("Error", {}).get("Code", "Unknown")
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == "ConditionalCheckFailedException":
        return ConditionFailed()
    if code == "TransactionCanceledException":
        return TransactionCancelled([_reason(raw) for raw in response.get("CancellationReasons", [])])
    if code in _THROTTLES:
        return Throttled("DynamoDB is over capacity")
    if code in _CONFLICTS:
        return TransactionConflict("Another write is in progress")
    if code == "ResourceNotFoundException":
        return TableMissing("A table is missing: the operator runs `manage.py create_tables`")
    if code in _BUSY:
        return TableBusy(f"DynamoDB is still at work on a table ({code})")
    if code in _TRANSIENT or status >= 500:
        return StoreUnavailable(f"DynamoDB cannot serve now ({code})")
    if code == "UnknownOperationException":
        return OperationUnknown(f"This engine does not offer {operation}")
    return StoreRefused(f"DynamoDB refused {operation}: {code}: {response.get('Error', {}).get('Message', '')}")


def _reason(raw: dict[str, Any]) -> CancellationReason | None:
    code = raw.get("Code", "None")
    return None if code == "None" else CancellationReason(code=code, item=raw.get("Item"))
