"""Ends memberships, and counts each departure in the same transaction.

Ingest caches memberships. The transaction of a message fails if the count has changed since, so no message of a former
member is stored (ADR-019).
"""

from chats.domain import Membership
from chats.stores.counters import CounterStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb import Database
from foundation.stores.errors import ConditionFailed, TransactionCancelled

LEAVE_RETRY = RetryPolicy(attempts=12, first_pause=0.01, longest_pause=0.3)
"""More attempts than usual, because in a busy chat messages contend for the counter."""


class Leaving:
    """Ends memberships. Callers check the right to do so."""

    def __init__(self, *, database: Database, memberships: MembershipStore, counters: CounterStore) -> None:
        self._database = database
        self._memberships = memberships
        self._counters = counters

    def leave(self, seen: Membership) -> None:
        """Raises `ConditionFailed` if the membership has changed since it was read.

        Raises `TransactionConflict` if messages kept the counter busy during all attempts.
        """
        writes = [self._memberships.removing(seen), self._counters.counting_departure(seen.chat_id)]
        try:
            self._database.transact(writes, retry=LEAVE_RETRY)
        except TransactionCancelled as error:
            if not any(reason is not None and reason.is_condition for reason in error.reasons):
                raise
            raise ConditionFailed("The membership has changed meanwhile") from error
