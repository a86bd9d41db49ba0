"""Why a batch could not be written, and whether writing it again can help."""

from dataclasses import dataclass, replace

from foundation.kernel.errors import ParleyError
from foundation.stores.dynamodb import Write
from foundation.stores.errors import CancellationReason, StoreRefused, StoreUnavailable, Throttled
from messaging.services.queues import Batch
from messaging.stores.messages import INSERT_KEY


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """A chat that could not be written this time. `error` is for the senders once the retries are used up.

    `contended`: others wrote to the chat first, so a retry needs a new read and no pause to speak of.
    """

    batch: Batch
    reason: str
    error: ParleyError
    permanent: bool = False
    contended: bool = False


def contention(batch: Batch, reason: str) -> FailedBatch:
    """Others wrote to the chat first."""
    error = StoreUnavailable("Others kept writing to this chat; send it again with the same id")
    return FailedBatch(batch, reason, error, contended=True)


def unanswered(batch: Batch, error: StoreUnavailable) -> FailedBatch:
    """The store gave no answer: only a read tells what it has stored."""
    return FailedBatch(batch, "throttled" if isinstance(error, Throttled) else "unavailable", error)


def failure_of(batch: Batch, write: Write, reason: CancellationReason) -> FailedBatch:
    """What the reason of a cancelled transaction means for the batch that the item belongs to."""
    if reason.is_condition:
        failure = contention(batch, f"{write.pattern.table}_condition")
        # A key that exists is a message that was sent before, maybe by this process.
        return replace(failure, contended=write.pattern is not INSERT_KEY)
    if reason.code == "TransactionConflict":
        return contention(batch, "conflict")
    if reason.is_transient:
        return FailedBatch(batch, "throttled", Throttled("DynamoDB is over capacity"))
    return FailedBatch(batch, "refused", StoreRefused(f"DynamoDB cancelled the write: {reason.code}"), permanent=True)
