"""The fold: applies a chat's drafts, in order, to what was read of the chat. Pure: reads nothing and writes nothing.

Drafts that are refused, or that change nothing, make no entry and take no sequence. Each changed message gets one
update, on condition that nothing else has changed it since it was read; a failed condition sends the whole chat back
to be read. So no condition belongs to a single draft.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from chats.domain import Chat, CounterState, Membership
from chats.errors import ChatNotFound
from chats.services.changes import Changes, ChatSnapshot
from foundation.kernel.clock import to_iso
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import UserId
from foundation.stores.dynamodb import Write
from foundation.stores.errors import StoreUnavailable, TransactionConflict
from messaging.domain import MAX_EMOJI, MAX_REACTIONS, Action, Kind, Message, Sent
from messaging.errors import MessageDeleted, MessageNotFound, NotYourMessage, TooManyReactions
from messaging.stores.messages import MessageStore

if TYPE_CHECKING:
    from messaging.services.queues import PendingDraft

MAX_PINS = 50


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read of a chat for the drafts that depend on it.

    `entries` are their targets and, for targets that are deleted, the deletions.
    """

    entries: Mapping[int, Message] = field(default_factory=dict)
    memberships: Mapping[UserId, Membership] = field(default_factory=dict)
    chat: Chat | None = None
    members: int | None = None


class Fold:
    """One chat's part of a transaction. `counter` is where the chat will stand, `stored` holds the entries."""

    def __init__(self, facts: Facts, counter: CounterState, *, now: datetime, changes: Changes) -> None:
        self.counter = counter
        self.stored: list[tuple[PendingDraft, Message]] = []
        self.answered: list[tuple[PendingDraft, Sent]] = []
        self.refused: list[tuple[PendingDraft, ParleyError]] = []
        self._facts = facts
        self._end_before = counter.sequence
        self._now = now
        self._changes = changes
        self._entries = dict(facts.entries)
        self._pins = () if facts.chat is None else facts.chat.pins
        self._writes: list[Write] = []

    def apply(self, pending: "PendingDraft") -> None:
        """Turn the draft into an entry, an answer or a refusal."""
        try:
            if pending.is_overtaken:
                self._require_no_entry(pending)
            outcome = self._outcome(pending)
        except ParleyError as error:
            self.refused.append((pending, error))
            return
        if isinstance(outcome, Message):
            self.stored.append((pending, outcome))
            self._entries[outcome.sequence] = outcome
            self._advance(outcome)
        else:
            self.answered.append((pending, outcome))

    def writes(self, messages: MessageStore) -> list[Write]:
        """The writes besides the entries, their keys and the counter."""
        before = self._facts.entries
        changed = [sequence for sequence in before if self._entries[sequence] is not before[sequence]]
        writes = [messages.changing(before[sequence], self._entries[sequence]) for sequence in changed]
        if self._facts.chat is not None and self._pins != self._facts.chat.pins:
            writes.append(self._changes.pinning(self._facts.chat, self._pins))
        return writes + self._writes

    def facts_after(self) -> Facts:
        """What is known once the transaction is committed, for the drafts that were read together with these.

        Of the new entries only deletions, which deleting again answers: a chat may go on without another read.
        """
        read, chat = self._facts.entries, self._facts.chat
        kept = {place: each for place, each in self._entries.items() if place in read or each.kind is Kind.DELETION}
        return replace(self._facts, entries=kept, chat=chat and replace(chat, pins=self._pins))

    def _require_no_entry(self, pending: "PendingDraft") -> None:
        """Raises `StoreUnavailable` if the draft would make an entry."""
        trial = copy(self)
        trial._entries, trial._writes = dict(self._entries), list(self._writes)
        if isinstance(trial._outcome(pending), Message):
            raise answer_lost()

    def _outcome(self, pending: "PendingDraft") -> Message | Sent:
        match pending.draft.kind:
            case Kind.MESSAGE:
                return self._message(pending)
            case Kind.EDIT:
                return self._edit(pending)
            case Kind.DELETION:
                return self._delete(pending)
            case Kind.REACTION:
                return self._react(pending)
            case Kind.PIN:
                return self._pin(pending)
            case Kind.NOTICE:
                return self._command(pending)

    def _message(self, pending: "PendingDraft") -> Message:
        reply_to = pending.draft.reply_to
        if reply_to is not None and reply_to > self._end_before:
            raise MessageNotFound(f"The chat has no entry {reply_to} to reply to")
        return self._entry(pending)

    def _edit(self, pending: "PendingDraft") -> Message:
        draft, target = pending.draft, self._target(pending)
        if draft.sender_id != target.sender_id:
            raise NotYourMessage("Only its author edits a message")
        _require_not_deleted(target)
        entry = self._entry(pending)
        self._change(target, entry, content=draft.content, mentions=draft.mentions, edited_at=entry.created_at)
        return entry

    def _delete(self, pending: "PendingDraft") -> Message | Sent:
        draft, target = pending.draft, self._target(pending)
        sender_id = draft.sender_id
        may_delete = draft.by_staff or sender_id == target.sender_id
        if not (may_delete or self._facts.memberships[sender_id].role.may_manage):
            raise NotYourMessage("Its author, the owner and admins delete a message")
        if target.deleted_at is not None:
            deletion = self._entries.get(target.last_change or 0)
            if deletion is None:
                raise TransactionConflict("The message is just being deleted")
            return Sent(deletion, duplicate=True)
        entry = self._entry(pending)
        deleted_at = entry.created_at
        self._change(target, entry, content="", mentions=(), reactions=None, deleted_at=deleted_at)
        return entry

    def _react(self, pending: "PendingDraft") -> Message | Sent:
        draft, target = pending.draft, self._target(pending)
        _require_not_deleted(target)
        reactions, emoji = dict(target.reactions or {}), str(draft.emoji)
        before = reactions.get(emoji, frozenset())
        adds = draft.action is Action.ADD
        if adds is (draft.sender_id in before):
            return Sent(target, duplicate=True, unchanged=True)
        if adds and (
            (not before and len(reactions) >= MAX_EMOJI) or sum(map(len, reactions.values())) >= MAX_REACTIONS
        ):
            raise TooManyReactions
        after = before | {draft.sender_id} if adds else before - {draft.sender_id}
        reactions |= {emoji: after}
        if not after:
            del reactions[emoji]
        entry = self._entry(pending)
        self._change(target, entry, reactions=reactions or None)
        return entry

    def _pin(self, pending: "PendingDraft") -> Message | Sent:
        draft, target, chat = pending.draft, self._target(pending), self._facts.chat
        if chat is None:
            raise ChatNotFound
        if not chat.is_direct and not self._facts.memberships[draft.sender_id].role.may_manage:
            raise NotYourMessage("The owner and admins pin messages")
        adds, sequence = draft.action is Action.ADD, target.sequence
        if adds:
            _require_not_deleted(target)
        if adds is (sequence in self._pins):
            return Sent(target, duplicate=True, unchanged=True)
        others = tuple(each for each in self._pins if each != sequence)
        self._pins = ((sequence, *others) if adds else others)[:MAX_PINS]
        return self._entry(pending)

    def _command(self, pending: "PendingDraft") -> Message:
        draft, facts = pending.draft, self._facts
        if facts.chat is None or draft.command is None:
            raise ChatNotFound
        snapshot = ChatSnapshot(facts.chat, facts.memberships, facts.members)
        sequence = self.counter.sequence + 1
        change = self._changes.judge(draft.command, draft.sender_id, snapshot, sequence=sequence, now=self._now)
        self._writes += change.writes
        self.counter = replace(
            self.counter,
            departures=self.counter.departures + change.departed,
            members=None if facts.members is None else facts.members + change.joined,
        )
        return replace(self._entry(pending), notice=change.notice)

    def _target(self, pending: "PendingDraft") -> Message:
        """The message as the drafts before this one leave it. Entries of this transaction are no targets."""
        sequence = pending.draft.target or 0
        target = self._entries[sequence] if sequence in self._facts.entries else None
        if target is None or target.kind is not Kind.MESSAGE:
            raise MessageNotFound(f"The chat has no message with sequence {sequence}")
        return target

    def _entry(self, pending: "PendingDraft") -> Message:
        draft = pending.draft
        return Message(
            message_id=pending.message_id,
            chat_id=draft.chat_id,
            sequence=self.counter.sequence + 1,
            sender_id=draft.sender_id,
            client_message_id=draft.client_message_id,
            content=draft.content,
            content_type=draft.content_type,
            created_at=to_iso(self._now),
            others=self.counter.others + (draft.kind is not Kind.MESSAGE),
            kind=draft.kind,
            reply_to=draft.reply_to,
            mentions=draft.mentions,
            target=draft.target,
            emoji=draft.emoji,
            action=draft.action,
        )

    def _change(self, target: Message, entry: Message, **changes: Any) -> None:
        self._entries[target.sequence] = replace(target, last_change=entry.sequence, **changes)

    def _advance(self, entry: Message) -> None:
        counter = self.counter
        if entry.kind is Kind.MESSAGE:
            self.counter = replace(counter, sequence=entry.sequence)
        else:
            self.counter = replace(
                counter,
                sequence=entry.sequence,
                others=entry.others,
                last_other=entry.sequence,
                last_message=counter.latest_message,
            )


def answer_lost() -> StoreUnavailable:
    """For a draft of which nobody knows what became, and that must not be stored behind a later one."""
    return StoreUnavailable("The answer was lost; send it again with the same id")


def _require_not_deleted(target: Message) -> None:
    if target.deleted_at is not None:
        raise MessageDeleted
