"""Who sent a draft hears what became of it, and so does who sent it again meanwhile."""

from collections.abc import Callable, Sequence
from copy import copy

from messaging.domain import Message, Sent
from messaging.errors import ClientMessageIdConflict
from messaging.services import metrics
from messaging.services.lanes import Entry


class Answers:
    """Settles and counts. `answered` hears how many drafts have their answer now. For one thread at a time."""

    def __init__(self, *, monotonic: Callable[[], float], answered: Callable[[int], None]) -> None:
        self._monotonic = monotonic
        self._answered = answered

    def succeed(self, stored: Sequence[tuple[Entry, Sent]]) -> None:
        now, count = self._monotonic(), len(stored)
        for entry, sent in stored:
            if sent.duplicate:
                metrics.DUPLICATES.inc()
            metrics.SEND_SECONDS.observe(now - entry.arrived)
            entry.answer.set_result(sent)
            for repeat in entry.repeats:
                self._repeat(repeat, sent.message)
            count += len(entry.repeats)
        metrics.SENT.inc(count)
        self._answered(count)

    def fail(self, entries: Sequence[Entry], error: BaseException) -> None:
        """A repeat is the same sender's: what refuses the first refuses it as well."""
        everyone = [each for entry in entries for each in (entry, *entry.repeats)]
        for entry in everyone:
            # A copy each: an exception that several threads raise would gather all their tracebacks.
            entry.answer.set_exception(copy(error))
        if everyone:
            metrics.FAILED.labels(getattr(error, "code", "internal_error")).inc(len(everyone))
            self._answered(len(everyone))

    def _repeat(self, repeat: Entry, message: Message) -> None:
        if repeat.draft.is_same_as(message):
            metrics.DUPLICATES.inc()
            repeat.answer.set_result(Sent(message, duplicate=True))
        else:
            repeat.answer.set_exception(ClientMessageIdConflict())
