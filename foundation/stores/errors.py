"""Failures of the stores. Callers never see an engine's own exception."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foundation.kernel.errors import ParleyError, Unavailable


class StoreUnavailable(Unavailable):
    """An engine did not answer in time, refused the connection, or answered that it cannot serve now."""

    def __init__(self, detail: str = "", *, retry_after: float = 1.0) -> None:
        super().__init__(detail, retry_after=retry_after)


class Throttled(StoreUnavailable):
    """A table or partition of DynamoDB is over its capacity, also after the retries."""


class TransactionConflict(StoreUnavailable):
    """Another write held one of the items, also after the retries."""


class EventLogUnavailable(StoreUnavailable):
    """Kafka did not take the events before the deadline. The change itself is stored."""

    code = "fanout_unavailable"
    title = "Stored, but not announced yet: send it again with the same id"


class TableMissing(StoreUnavailable):
    """A table does not exist: the operator has not run `manage.py create_tables`."""


class TableBusy(StoreUnavailable):
    """DynamoDB is still creating or changing the table and accepts no other change."""


class EndpointUnusable(StoreUnavailable):
    """The environment does not say where DynamoDB is. The operator corrects it."""


class ConditionFailed(Exception):
    """The condition of a write was not met. The caller translates it.

    `item` is the stored state, if the request asked for it.
    """

    def __init__(self, item: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.item = item


@dataclass(frozen=True, slots=True)
class CancellationReason:
    """Why one item cancelled a transaction. `item` is its stored state, if the request asked for it."""

    code: str
    item: dict[str, Any] | None = None

    @property
    def is_condition(self) -> bool:
        return self.code == "ConditionalCheckFailed"

    @property
    def is_transient(self) -> bool:
        return self.code in {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}


class TransactionCancelled(Exception):
    """Nothing of the transaction was written. `reasons` has an entry for each item, None where it is not the cause."""

    def __init__(self, reasons: Sequence[CancellationReason | None]) -> None:
        codes = ", ".join("-" if reason is None else reason.code for reason in reasons)
        super().__init__(f"transaction cancelled: {codes}")
        self.reasons = tuple(reasons)

    @property
    def is_transient(self) -> bool:
        """Whether the same transaction may succeed if it is sent again."""
        causes = [reason for reason in self.reasons if reason is not None]
        return bool(causes) and all(reason.is_transient for reason in causes)


class WriteRefused(ParleyError):
    """A write through a read-only client. It was not sent. Always a bug."""


class StoreRefused(ParleyError):
    """The engine rejected the request as wrong (validation, permission). A bug or a misconfiguration."""


class OperationUnknown(StoreRefused):
    """The engine does not offer the operation: an emulator that lacks an AWS feature."""
