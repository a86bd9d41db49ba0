"""Commits the drafts that other processes hand over, and answers them.

`announced` carries the answers of drafts, when Kafka has taken their events. `stored` tells that every draft of a batch
is stored or refused, if Kafka takes longer: the last answers imply it. `not_home` tells that the batch is not committed
here. A batch that follows another is accepted only if that one was: so nothing overtakes a batch that was
lost or refused.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import orjson

from foundation.kernel.errors import ParleyError, as_parley_error
from foundation.kernel.ids import MessageId
from foundation.kernel.tracing import parse_traceparent
from messaging.domain import Draft
from messaging.services import codec
from messaging.services.queues import PendingDraft

MAX_ANSWERS_BYTES = 192 * 1024
STORED_AFTER = 0.02
"""Seconds for which `stored` waits for the answers. Mostly they follow sooner, and an envelope is saved."""
MAX_ACCEPTED = 50_000
"""Batches that are remembered as accepted."""

Reply = Callable[[bytes], None]


class GuestCommitter(Protocol):
    """The committer of this process."""

    def accept(self, draft: Draft, message_id: MessageId) -> PendingDraft:
        """Enqueue a draft that another process has admitted. Raises `ParleyError`."""
        ...


@dataclass(slots=True, eq=False)
class GuestBatch:
    """A batch of another process. `answers` are those not sent yet, by the positions of their drafts.

    `unstored` are the drafts that are neither stored nor refused, `unanswered` those without an answer.
    """

    batch_id: str
    reply: Reply
    unstored: set[int]
    unanswered: set[int]
    answers: list[tuple[int, Any]] = field(default_factory=list)
    is_scheduled: bool = False
    stored_timer: asyncio.TimerHandle | None = None


class Guests:
    """The drafts of other processes that are committed here. For one event loop."""

    def __init__(self, committer: GuestCommitter) -> None:
        self._committer = committer
        self._is_closed = False
        self._accepted: OrderedDict[str, None] = OrderedDict()

    def close(self) -> None:
        """Accept no more batches."""
        self._is_closed = True

    def receive(self, batch_id: str, parcel: Mapping[str, Any], *, reply: Reply) -> None:
        """Commit a batch's drafts in their order. `reply` sends a parcel to the process that handed it over."""
        drafts = [] if self._is_closed else self._read(parcel)
        if not drafts:
            reply(not_home(batch_id))
            return
        self._accepted[batch_id] = None
        if len(self._accepted) > MAX_ACCEPTED:
            self._accepted.popitem(last=False)
        positions = range(len(drafts))
        batch = GuestBatch(batch_id, reply, unstored=set(positions), unanswered=set(positions))
        for position, (message_id, draft) in enumerate(drafts):
            try:
                pending = self._committer.accept(draft, message_id)
            except ParleyError as error:
                self._answer(batch, position, error)
            else:
                pending.on_stored(partial(self._on_stored, batch, position))
                pending.future.add_done_callback(partial(self._on_done, batch, position))

    def _read(self, parcel: Mapping[str, Any]) -> list[tuple[MessageId, Draft]]:
        """The drafts of a batch; none if it cannot be read, or follows one that is not accepted here."""
        match parcel:
            case {"after": str(before), "later_drafts": drafts} if before in self._accepted:
                pass
            case {"drafts": drafts} if "after" not in parcel:
                pass
            case _:
                return []
        try:
            return _traced(_read_drafts(drafts), parcel.get("traceparents"))
        except codec.UnknownForm:
            return []

    def _on_done(self, batch: GuestBatch, position: int, future: "asyncio.Future[Any]") -> None:
        error = future.exception()
        self._answer(batch, position, future.result() if error is None else as_parley_error(error))

    def _on_stored(self, batch: GuestBatch, position: int) -> None:
        """Tell that the batch is stored, unless its answers follow at once."""
        batch.unstored.discard(position)
        if not batch.unstored and batch.unanswered and batch.stored_timer is None:
            tell = partial(batch.reply, _stored(batch.batch_id))
            batch.stored_timer = asyncio.get_running_loop().call_later(STORED_AFTER, tell)

    def _answer(self, batch: GuestBatch, position: int, answer: object) -> None:
        """Answers that come in one iteration of the loop leave together."""
        batch.answers.append((position, answer))
        batch.unanswered.discard(position)
        self._on_stored(batch, position)
        if not batch.unanswered and batch.stored_timer is not None:
            batch.stored_timer.cancel()
        if not batch.is_scheduled:
            batch.is_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush, batch)

    def _flush(self, batch: GuestBatch) -> None:
        batch.is_scheduled = False
        answers, batch.answers = batch.answers, []
        for parcel in _announced(batch.batch_id, answers):
            batch.reply(parcel)


def _read_drafts(drafts: object) -> list[tuple[MessageId, Draft]]:
    """Raises `UnknownForm`."""
    if not isinstance(drafts, list):
        raise codec.UnknownForm("no drafts")
    read = []
    for each in drafts:
        match each:
            case [str(message_id), draft]:
                read.append((MessageId(message_id), codec.draft_from_wire(draft)))
            case _:
                raise codec.UnknownForm("no draft")
    return read


def _traced(read: list[tuple[MessageId, Draft]], traceparents: object) -> list[tuple[MessageId, Draft]]:
    """The drafts with their traces, if any, in the same order. Raises `UnknownForm`."""
    if traceparents is None:
        return read
    if not isinstance(traceparents, list) or len(traceparents) != len(read):
        raise codec.UnknownForm("no traces of the drafts")
    return [
        (message_id, draft if traceparent is None else replace(draft, traceparent=parse_traceparent(str(traceparent))))
        for (message_id, draft), traceparent in zip(read, traceparents, strict=True)
    ]


def not_home(batch_id: str) -> bytes:
    return orjson.dumps({"type": "not_home", "id": batch_id})


def _stored(batch_id: str) -> bytes:
    return orjson.dumps({"type": "stored", "id": batch_id})


def _announced(batch_id: str, answers: Sequence[tuple[int, Any]]) -> list[bytes]:
    """As many parcels as the answers need."""
    parcels: list[list[orjson.Fragment]] = []
    size = MAX_ANSWERS_BYTES
    for position, answer in answers:
        encoded = orjson.dumps([position, codec.answer_to_wire(answer)])
        size += len(encoded)
        if size > MAX_ANSWERS_BYTES:
            parcels.append([])
            size = len(encoded)
        parcels[-1].append(orjson.Fragment(encoded))
    return [orjson.dumps({"type": "announced", "id": batch_id, "answers": parcel}) for parcel in parcels]
