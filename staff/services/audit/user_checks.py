"""The checks of a person, and of the claims of phone numbers. A new check is a function in `CHECKS`."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import datetime

from accounts.stores.inspection import Item
from staff.services.audit.chat_checks import is_stray, stray_membership
from staff.services.audit.problems import Problem, of_user

PHONE = "phone#"
REQUIRED = ("phone_number", "display_name", "created_at", "updated_at")


@dataclass(frozen=True, slots=True)
class UserFacts:
    """What was read of a person. `claim` is the one of the person's number; `chat_ids` are the chats of `memberships`
    that exist: with a counter, or with a chat whose counter is lost.
    """

    user_id: str
    user: Item | None
    claim: Item | None
    memberships: Sequence[Item]
    chat_ids: Set[str]
    now: datetime

    @property
    def number(self) -> str | None:
        return None if self.user is None else self.user.get("phone_number")


def existence(facts: UserFacts) -> Iterator[Problem]:
    if facts.user is None:
        yield of_user("user_missing", facts.user_id, "There is no such person.")
    elif missing := [name for name in REQUIRED if not isinstance(facts.user.get(name), str)]:
        yield of_user("user_torn", facts.user_id, f"The account lacks {', '.join(missing)}.")


def phone_claim(facts: UserFacts) -> Iterator[Problem]:
    if facts.number is None:
        return
    claim_id = f"{PHONE}{facts.number}"
    if facts.claim is None:
        detail = "The number is not claimed: somebody else could register it. Repair: write the claim."
        yield of_user(
            "phone_claim_missing",
            facts.user_id,
            detail,
            repair=lambda stores: stores.users.restore_claim(claim_id, owner_id=facts.user_id, now=facts.now),
        )
    elif facts.claim.get("owner_id") != facts.user_id:
        yield of_user("phone_claim_wrong", facts.user_id, f"The number belongs to {facts.claim.get('owner_id')}.")


def memberships(facts: UserFacts) -> Iterator[Problem]:
    for membership in facts.memberships:
        if str(membership["chat_id"]) not in facts.chat_ids and is_stray(membership, now=facts.now):
            yield stray_membership(membership)


CHECKS: tuple[Callable[[UserFacts], Iterable[Problem]], ...] = (existence, phone_claim, memberships)


def dangling_phone_claim(claim: Item) -> Problem:
    """For a claim whose owner does not exist."""
    return of_user(
        "phone_claim_dangling",
        str(claim.get("owner_id")),
        "The owner of a claimed number does not exist: nobody can register it. Repair: delete the claim.",
        repair=lambda stores: stores.users.drop_claim(claim),
    )
