"""Registration under concurrent logins of one number."""

from typing import cast

import pytest

from accounts.domain import User
from accounts.errors import PhoneNumberTaken
from accounts.services.registration import Registration
from accounts.stores.users import UserStore
from foundation.kernel.ids import IdFactory, UserId
from foundation.stores.errors import StoreUnavailable, TransactionConflict
from tests.doubles import SettableClock

NUMBER = "+14155550123"
CLOCK = SettableClock()
RIVAL = User(
    user_id=UserId("user_01KG7Y4QZ8M3T5V6W7X8Y9Z0A1"),
    phone_number=NUMBER,
    phone_verified=True,
    display_name="Rival",
    created_at=CLOCK.now(),
    updated_at=CLOCK.now(),
)


class Users:
    """A `users` table in which `create` fails, after a concurrent login or after its own commit."""

    def __init__(self, failure: Exception, *, winner: User | None = None, commits: bool = False) -> None:
        self._failure = failure
        self._winner = winner
        self._commits = commits
        self._owner: User | None = None

    def find_owner(self, phone_number: str) -> UserId | None:
        return self._owner.user_id if self._owner else None

    def find_now(self, user_id: UserId) -> User | None:
        return self._owner if self._owner and self._owner.user_id == user_id else None

    def create(self, user: User) -> None:
        self._owner = user if self._commits else self._winner
        raise self._failure


def register(users: Users) -> tuple[User, bool]:
    registration = Registration(cast(UserStore, users), ids=IdFactory(CLOCK), clock=CLOCK)
    return registration.find_or_create(NUMBER, display_name="Late")


@pytest.mark.parametrize("failure", [PhoneNumberTaken(), TransactionConflict()])
def test_the_loser_of_a_race_logs_in_as_the_winners_user(failure: Exception) -> None:
    assert register(Users(failure, winner=RIVAL)) == (RIVAL, False)


def test_a_commit_whose_answer_was_lost_is_recognised_as_ones_own() -> None:
    user, is_new = register(Users(PhoneNumberTaken(), commits=True))
    assert is_new
    assert user.display_name == "Late"


def test_a_conflict_without_a_winner_is_raised() -> None:
    with pytest.raises(TransactionConflict):
        register(Users(TransactionConflict()))


def test_a_claim_without_its_user_is_an_error() -> None:
    users = Users(PhoneNumberTaken())
    users._owner = RIVAL
    users.find_now = lambda user_id: None  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        register(users)
