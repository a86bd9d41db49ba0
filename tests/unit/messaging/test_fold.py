"""The fold by itself. What it decides is tested with the store, in the integration tests of the log."""

import asyncio
from datetime import UTC, datetime
from unittest.mock import Mock

from chats.domain import CounterState
from chats.services.changes import Changes
from foundation.kernel.ids import ChatId, MessageId, UserId
from messaging.domain import Draft, Kind, Message
from messaging.services.fold import Facts, Fold
from messaging.services.queues import PendingDraft

NOW = datetime(2035, 1, 30, tzinfo=UTC)
TARGET = Message(MessageId("msg"), ChatId("chat"), 1, UserId("ann"), "id", "hello", "text/plain", "2035")


def pending(kind: Kind = Kind.MESSAGE, **fields: int) -> PendingDraft:
    future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    return PendingDraft(Draft(ChatId("chat"), UserId("ann"), "id", kind=kind, **fields), MessageId("m"), 0.0, future)  # type: ignore[arg-type]


def fold(facts: Facts, counter: CounterState) -> Fold:
    return Fold(facts, counter, now=NOW, changes=Mock(Changes))


class TestFactsAfter:
    async def test_new_messages_are_no_facts(self) -> None:
        """A chat of replies goes on without another read: what is kept would grow."""
        facts, counter = Facts({1: TARGET}), CounterState(1)
        for _ in range(3):
            part = fold(facts, counter)
            part.apply(pending(reply_to=1))
            facts, counter = part.facts_after(), part.counter
        assert (facts.entries, counter.sequence) == ({1: TARGET}, 4)

    async def test_a_deletion_is_one_and_answers_the_next(self) -> None:
        part = fold(Facts({1: TARGET}), CounterState(1))
        part.apply(pending(Kind.DELETION, target=1))
        after = fold(part.facts_after(), part.counter)
        after.apply(again := pending(Kind.DELETION, target=1))
        [(_, deletion)] = part.stored
        [(answered, sent)] = after.answered
        assert (answered, sent.message, sent.duplicate) == (again, deletion, True)
        assert after.writes(Mock()) == []
