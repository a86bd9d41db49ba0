"""The checks of a chat. A new check is a function in `CHECKS`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from chats.domain import ChatType, Role
from foundation.kernel.clock import to_iso
from foundation.kernel.ids import ChatId
from messaging.stores.inspection import Item
from staff.services.audit.log_facts import KEY_LIFE, LogFacts
from staff.services.audit.problems import AuditStores, Problem, Repair, in_chat

PREPARATION = timedelta(hours=1)
"""The memberships of a large group are written before the group: younger ones without a chat are no problem."""
MARKS = ("last_acked_sequence", "last_read_sequence")


@dataclass(frozen=True, slots=True)
class ChatFacts:
    """What was read of a chat, each item strongly consistent. `highest` is the counter after all else was read."""

    chat_id: str
    chat: Item | None
    counter: Item | None
    highest: int
    members: Sequence[Item]
    users: Mapping[str, Item]
    marks: Sequence[Item]
    claim_id: str | None
    claim: Item | None
    log: LogFacts
    lost: Sequence[tuple[int, int]]
    """Ranges of sequences without an entry, also when looked for once more."""
    wrong_changes: Mapping[int, int]
    """Messages that tell of another last change than the entries do, also when read once more, and what they tell."""
    after: Item | None
    """The counter once more, after all else was read."""
    now: datetime

    @property
    def end(self) -> int:
        """The last sequence that somebody may have seen. A counter that is lost or behind does not tell it."""
        return max(self.highest, self.log.last)


def existence(facts: ChatFacts) -> Iterator[Problem]:
    if facts.chat is None and facts.counter is not None:
        yield in_chat("chat_missing", facts.chat_id, "There is a counter and no chat. Restore it from a backup.")
    if facts.chat is not None and facts.counter is None:
        detail = f"There is a chat and no counter. Repair: begin at {facts.log.last}."
        yield in_chat("counter_missing", facts.chat_id, detail, repair=None if facts.lost else _restore_counter(facts))


def density(facts: ChatFacts) -> Iterator[Problem]:
    for first, last in facts.lost:
        detail = f"No entry has the sequences {first} to {last}. Restore from a backup."
        yield in_chat("entry_missing", facts.chat_id, detail, sequence=first)
    for sequence in facts.log.torn:
        yield in_chat("entry_torn", facts.chat_id, "The entry lacks attributes. Restore it.", sequence=sequence)


def counter(facts: ChatFacts) -> Iterator[Problem]:
    if facts.counter is not None and facts.log.last > facts.highest:
        detail = f"The counter is at {facts.highest}, the last entry is {facts.log.last}. Repair: move the counter."
        yield in_chat(
            "counter_behind",
            facts.chat_id,
            detail,
            sequence=facts.log.last,
            repair=None if facts.lost else _raise_counter(facts),
        )


def ordinals(facts: ChatFacts) -> Iterator[Problem]:
    """Each entry, and the counter, tells how many entries so far are no messages.

    Processes of a version before edits and reactions do not tell, so an upgrade may leave such messages.
    """
    is_whole = not facts.log.gaps and not facts.log.torn
    for sequence, counted, right in facts.log.wrong_others:
        detail = f"The entry tells of {counted or 0} entries so far that are no messages, there are {right}."
        repair = partial(_correct_others, facts=facts, sequence=sequence, seen=counted, to=right)
        yield in_chat(
            "others_wrong",
            facts.chat_id,
            f"{detail} Repair: correct it.",
            sequence=sequence,
            repair=repair if is_whole else None,
        )
    if facts.after is not None and facts.highest == facts.log.last and not facts.lost:
        counted = int(facts.after.get("others") or 0)
        if counted != facts.log.others:
            detail = f"The counter tells of {counted} entries that are no messages, there are {facts.log.others}."
            yield in_chat(
                "counter_others_wrong",
                facts.chat_id,
                f"{detail} Unread counts are wrong. Repair: correct it.",
                repair=_correct_counter(facts) if is_whole else None,
            )


def targets(facts: ChatFacts) -> Iterator[Problem]:
    """An entry names an earlier message, and the message tells of its last change."""
    for sequence in facts.log.wrong_targets:
        yield in_chat("target_wrong", facts.chat_id, "The entry names no earlier message.", sequence=sequence)
    for sequence, counted in facts.wrong_changes.items():
        right = facts.log.changes.get(sequence, 0)
        detail = f"The message tells of {counted} as its last change, it is {right}; clients ignore changes up to it."
        yield in_chat("last_change_wrong", facts.chat_id, detail, sequence=sequence)
    for sequence in facts.log.remains:
        detail = "The message is deleted and not empty: what was deleted is still stored."
        yield in_chat("deleted_not_empty", facts.chat_id, detail, sequence=sequence)


def member_count(facts: ChatFacts) -> Iterator[Problem]:
    """Skipped where somebody joined or left while the facts were read."""
    if facts.counter is None or facts.after is None or facts.counter.get("members") is None:
        return
    counted = int(facts.counter["members"])
    if counted == len(facts.members) or not _is_steady(facts, "members", "departures"):
        return
    detail = f"The counter tells of {counted} members, there are {len(facts.members)}. Repair: correct it."
    yield in_chat("member_count_wrong", facts.chat_id, detail, repair=_count_members(facts, counted))


def _is_steady(facts: ChatFacts, *names: str) -> bool:
    """Whether the counter had the same values of these before and after all else was read."""
    before, after = facts.counter or {}, facts.after or {}
    return all(before.get(name) == after.get(name) for name in names)


def keys(facts: ChatFacts) -> Iterator[Problem]:
    """Every message of the last week has its key, and every key leads to its message."""
    for client_id, key in facts.log.keys.items():
        entry = facts.log.recent.get(client_id)
        sequence = int(key.get("sequence") or 0)
        if sequence > facts.log.last and sequence <= facts.highest:
            continue  # stored after the entries were read
        if entry is None or (entry["message_id"], entry["sequence"]) != (key.get("message_id"), sequence):
            detail = f"The key {client_id!r} leads to no such message. Repair: delete it, or write it anew."
            yield in_chat(
                "key_wrong", facts.chat_id, detail, sequence=sequence, repair=partial(_renew_key, key=key, entry=entry)
            )
    for client_id, entry in facts.log.recent.items():
        if client_id not in facts.log.keys:
            detail = f"The message has no key {client_id!r}: a retry would repeat it. Repair: write it."
            yield in_chat(
                "key_missing",
                facts.chat_id,
                detail,
                sequence=entry["sequence"],
                repair=partial(_restore_key, entry=entry),
            )


def memberships(facts: ChatFacts) -> Iterator[Problem]:
    if facts.chat is None and facts.counter is None:
        yield from (stray_membership(each) for each in facts.members if is_stray(each, now=facts.now))
        return
    for member in facts.members:
        user_id = str(member["user_id"])
        if member.get("role") not in set(Role) or not member.get("joined_at"):
            yield in_chat("membership_torn", facts.chat_id, "The membership lacks attributes.", user_id=user_id)
        if user_id not in facts.users:
            yield in_chat("member_unknown", facts.chat_id, "The member's account does not exist.", user_id=user_id)


def owners(facts: ChatFacts) -> Iterator[Problem]:
    """Erased people leave direct chats, and groups that hold nobody else."""
    if facts.chat is None:
        return
    members, departed = len(facts.members), int((facts.after or {}).get("departures") or 0)
    owning = [str(each["user_id"]) for each in facts.members if each.get("role") == Role.OWNER]
    is_left = not members and departed
    if facts.chat.get("chat_type") == ChatType.GROUP and len(owning) != 1 and not is_left:
        yield in_chat("owner_wrong", facts.chat_id, f"The group has {len(owning)} owners, not one.")
    is_complete = members + departed == 2
    if facts.chat.get("chat_type") == ChatType.DIRECT and not is_complete and _is_steady(facts, "departures"):
        detail = f"The direct chat has {members} members, not two, and {departed} have been erased."
        yield in_chat("direct_members", facts.chat_id, detail)


def direct_claim(facts: ChatFacts) -> Iterator[Problem]:
    if facts.claim_id is None:
        return
    if facts.claim is None:
        detail = "The two have no claim on this chat and could open another. Repair: write the claim."
        yield in_chat("direct_claim_missing", facts.chat_id, detail, repair=_claim_direct(facts, facts.claim_id))
    elif facts.claim.get("direct_chat_id") != facts.chat_id:
        detail = f"The two have another direct chat by their claim, {facts.claim.get('direct_chat_id')}."
        yield in_chat("direct_claim_wrong", facts.chat_id, detail)


def marks(facts: ChatFacts) -> Iterator[Problem]:
    for mark in facts.marks:
        for name in MARKS:
            if int(mark.get(name) or 0) > facts.end:
                detail = f"{name} is {mark[name]}, the chat ends at {facts.end}. Repair: lower it."
                yield in_chat(
                    "mark_out_of_range",
                    facts.chat_id,
                    detail,
                    sequence=int(mark[name]),
                    user_id=str(mark["user_id"]),
                    repair=partial(_lower, mark=mark, name=name, facts=facts),
                )


CHECKS: tuple[Callable[[ChatFacts], Iterable[Problem]], ...] = (
    existence,
    density,
    counter,
    ordinals,
    targets,
    member_count,
    keys,
    memberships,
    owners,
    direct_claim,
    marks,
)


def is_stray(membership: Item, *, now: datetime) -> bool:
    """Whether a membership without a chat is old enough to be left over."""
    return str(membership.get("joined_at") or "") < to_iso(now - PREPARATION)


def stray_membership(membership: Item) -> Problem:
    return in_chat(
        "membership_without_chat",
        str(membership["chat_id"]),
        "There is a membership and no chat. Repair: delete it.",
        user_id=str(membership["user_id"]),
        repair=lambda stores: stores.chats.drop_membership(membership),
    )


# Repairs


def _restore_counter(facts: ChatFacts) -> Repair:
    return lambda stores: stores.chats.restore_counter(
        ChatId(facts.chat_id), at=facts.log.last, counted=_counted(facts), members=len(facts.members), now=facts.now
    )


def _raise_counter(facts: ChatFacts) -> Repair:
    return lambda stores: stores.chats.raise_counter(
        ChatId(facts.chat_id), seen=facts.highest, to=facts.log.last, counted=_counted(facts), now=facts.now
    )


def _correct_counter(facts: ChatFacts) -> Repair:
    return lambda stores: stores.chats.correct_counted(
        ChatId(facts.chat_id), seen=facts.highest, counted=_all_counted(facts.log)
    )


def _counted(facts: ChatFacts) -> dict[str, int]:
    """What a counter tells besides its sequence; absent while there is nothing to count."""
    return _all_counted(facts.log) if facts.log.others else {}


def _all_counted(log: LogFacts) -> dict[str, int]:
    return {"others": log.others, "last_other": log.last_other, "last_message": log.message_before}


def _count_members(facts: ChatFacts, counted: int) -> Repair:
    return lambda stores: stores.chats.correct_members(ChatId(facts.chat_id), seen=counted, to=len(facts.members))


def _claim_direct(facts: ChatFacts, claim_id: str) -> Repair:
    return lambda stores: stores.chats.restore_direct_claim(claim_id, ChatId(facts.chat_id))


async def _correct_others(stores: AuditStores, *, facts: ChatFacts, sequence: int, seen: int | None, to: int) -> None:
    await stores.log.correct_others(ChatId(facts.chat_id), sequence, seen=seen, to=to)


async def _restore_key(stores: AuditStores, *, entry: Item) -> None:
    expires = datetime.fromisoformat(entry["created_at"]) + KEY_LIFE
    await stores.log.restore_key(entry, ttl=int(expires.timestamp()))


async def _renew_key(stores: AuditStores, *, key: Item, entry: Item | None) -> None:
    await stores.log.drop_key(key)
    if entry is not None:
        await _restore_key(stores, entry=entry)


async def _lower(stores: AuditStores, *, mark: Item, name: str, facts: ChatFacts) -> None:
    await stores.marks.lower(mark, name, to=facts.end, now=facts.now)
