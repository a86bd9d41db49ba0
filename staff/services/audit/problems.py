"""A problem: what was found, and what repairs it, where that is safe."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from accounts.stores.inspection import UserInspection
from chats.stores.inspection import ChatInspection
from delivery.stores.inspection import MarkInspection
from messaging.stores.inspection import LogInspection
from staff.findings import Finding


@dataclass(frozen=True, slots=True)
class AuditStores:
    """The tables as they are."""

    users: UserInspection
    chats: ChatInspection
    log: LogInspection
    marks: MarkInspection


Repair = Callable[[AuditStores], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Problem:
    finding: Finding
    repair: Repair | None = None


def in_chat(
    kind: str,
    chat_id: str,
    detail: str,
    *,
    sequence: int | None = None,
    user_id: str | None = None,
    repair: Repair | None = None,
) -> Problem:
    return Problem(Finding(kind, detail, chat_id, sequence, user_id), repair)


def of_user(kind: str, user_id: str, detail: str, *, repair: Repair | None = None) -> Problem:
    return Problem(Finding(kind, detail, user_id=user_id), repair)
