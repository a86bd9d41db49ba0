"""How the stores fail, in our own words: no caller ever sees an engine's exception."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foundation.kernel.errors import ParleyError, Unavailable


class StoreUnavailable(Unavailable):
    """An engine did not answer in time, refused the connection, or answered that it cannot serve now."""

    def __init__(self, detail: str = "", *, retry_after: float = 1.0) -> None:
        super().__init__(detail, retry_after=retry_after)


class Throttled(StoreUnavailable):
    """DynamoDB answered that the table or partition is over its capacity, and kept doing so through the retries."""


class TransactionConflict(StoreUnavailable):
    """Another write held one of the items, and kept doing so through the retries."""


class EventLogUnavailable(StoreUnavailable):
    """Kafka did not take the events before the deadline. What DynamoDB holds stands."""

    code = "fanout_unavailable"
    title = "Stored, but not announced yet: send it again with the same id"


class TableMissing(StoreUnavailable):
    """A table is not there: the operator has not run `manage.py create_tables`."""


class TableBusy(StoreUnavailable):
    """DynamoDB is still creating the table, or changing it, and takes no other change meanwhile."""


class ConditionFailed(Exception):
    """A conditional write found the item in another state; the caller knows what that means."""


@dataclass(frozen=True, slots=True)
class CancellationReason:
    """Why one item stopped a transaction. `item` is the stored state where it was asked for."""

    code: str
    item: dict[str, Any] | None = None

    @property
    def is_condition(self) -> bool:
        return self.code == "ConditionalCheckFailed"

    @property
    def is_transient(self) -> bool:
        return self.code in {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}


class TransactionCancelled(Exception):
    """Nothing of the transaction was written. `reasons` stand in the order of its items, None where innocent."""

    def __init__(self, reasons: Sequence[CancellationReason | None]) -> None:
        codes = ", ".join("-" if reason is None else reason.code for reason in reasons)
        super().__init__(f"transaction cancelled: {codes}")
        self.reasons = tuple(reasons)

    @property
    def is_transient(self) -> bool:
        """True when trying the very same transaction again may succeed."""
        blamed = [reason for reason in self.reasons if reason is not None]
        return bool(blamed) and all(reason.is_transient for reason in blamed)


class WriteRefused(ParleyError):
    """A write was attempted through a read-only client; it never left the process. Always a bug."""


class StoreRefused(ParleyError):
    """The engine called the request wrong (validation, permission). Always a bug or a misconfiguration."""


class OperationUnknown(StoreRefused):
    """The engine does not know the operation: an emulator that lacks an AWS feature."""
