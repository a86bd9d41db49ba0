"""Lost events, found by arithmetic: every chat is dense, so a jump in its sequence is a gap.

An event that jumps ahead means that another was lost between DynamoDB and Kafka; what is missing is read from the
source of truth and delivered too.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prometheus_client import Counter

FILLED = Counter("parley_fanout_gap_messages_total", "Messages that were delivered without an event of their own.")
REPEATED = Counter("parley_fanout_repeated_events_total", "Events of messages that had been fanned out already.")

REMEMBERED_CHATS = 50_000
LONGEST_GAP = 200

Payload = Mapping[str, Any]
ReadBetween = Callable[[str, int, int], Sequence[Payload]]


class Gaps:
    """Remembers, per chat, the last sequence that this worker fanned out. Not thread-safe."""

    def __init__(self, read_between: ReadBetween, *, capacity: int = REMEMBERED_CHATS) -> None:
        self._read_between = read_between
        self._capacity = capacity
        self._last: OrderedDict[str, int] = OrderedDict()

    def complete(self, chat_id: str, payloads: Sequence[Payload]) -> list[Payload]:
        """The messages to deliver, ascending: what came, without repeats, and what is missing in between.

        A gap longer than clients care to be pushed is left to their syncs, which find it by the same arithmetic.
        """
        fresh: dict[int, Payload] = {}
        last = self._last.get(chat_id)
        for payload in sorted(payloads, key=lambda payload: int(payload["sequence"])):
            sequence = int(payload["sequence"])
            if last is not None and sequence <= last:
                REPEATED.inc()
                continue
            if last is not None and 0 < sequence - last - 1 <= LONGEST_GAP:
                missing = self._read_between(chat_id, last + 1, sequence - 1)
                fresh.update({int(found["sequence"]): found for found in missing})
                FILLED.inc(len(missing))
            fresh[sequence] = payload
            last = sequence
        return [fresh[sequence] for sequence in sorted(fresh)]

    def fanned_out(self, chat_id: str, sequence: int) -> None:
        """Everything up to here has been handed to the gateways."""
        self._last[chat_id] = max(sequence, self._last.pop(chat_id, 0))
        if len(self._last) > self._capacity:
            self._last.popitem(last=False)

    def forget(self) -> None:
        """Partitions have moved: what was remembered may be behind what others have done."""
        self._last.clear()
