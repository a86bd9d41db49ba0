"""Whole accounts, phone number included: for staff only."""

import re

from accounts import phone_numbers
from accounts.domain import User
from accounts.errors import UserNotFound
from accounts.stores.users import UserStore
from foundation.kernel.errors import Invalid
from foundation.kernel.ids import UserId

_SEPARATORS = re.compile(r"[\s().-]")
_NUMBER = re.compile(r"\+?[0-9]+")


class UserRecords:
    """Reads are strongly consistent."""

    def __init__(self, users: UserStore) -> None:
        self._users = users

    def find(self, text: str) -> User | None:
        """The user with this id or phone number, which may lack its plus sign and have spaces and hyphens."""
        compact = _SEPARATORS.sub("", text)
        user_id = self._owner(f"+{compact.removeprefix('+')}") if _NUMBER.fullmatch(compact) else UserId(text.strip())
        return None if user_id is None else self._users.find_now(user_id)

    def get(self, text: str) -> User:
        """Raises `UserNotFound`."""
        user = self.find(text)
        if user is None:
            raise UserNotFound
        return user

    def _owner(self, phone_number: str) -> UserId | None:
        try:
            return self._users.find_owner(phone_numbers.normalize(phone_number))
        except Invalid:
            return None

    def erase(self, user: User) -> None:
        """Delete the user and the claim of its number. Raises `UserNotFound` if they are gone already."""
        if not self._users.erase(user):
            raise UserNotFound
