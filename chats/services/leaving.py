"""How a membership ends: together with the count of those who have left.

Who posts may have been seen as a member before. The count is what their next message is checked against, in its own
transaction: no message of theirs is stored once they are out (ADR-019).
"""

from chats.domain import Membership
from chats.stores.counters import CounterStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb import Database
from foundation.stores.errors import ConditionFailed, TransactionCancelled

LEAVE_RETRY = RetryPolicy(attempts=12, first_pause=0.01, longest_pause=0.3)
"""In a busy chat, messages hold the counter most of the time."""


class Leaving:
    """Ends memberships; who may do that is decided by the caller."""

    def __init__(self, *, database: Database, memberships: MembershipStore, counters: CounterStore) -> None:
        self._database = database
        self._memberships = memberships
        self._counters = counters

    def leave(self, seen: Membership) -> None:
        """Raises `ConditionFailed` when the membership is no longer the one that was seen.

        Raises `TransactionConflict` when messages kept the counter busy all the time.
        """
        writes = [self._memberships.removing(seen), self._counters.counting_departure(seen.chat_id)]
        try:
            self._database.transact(writes, retry=LEAVE_RETRY)
        except TransactionCancelled as error:
            if not any(reason is not None and reason.is_condition for reason in error.reasons):
                raise
            raise ConditionFailed("The membership has changed meanwhile") from error
