"""The table `users`: users, and the claims that make phone numbers unique.

Users are read eventually consistent. A miss is repeated with a strongly consistent read, so that a new user
is never reported as unknown.
"""

from collections.abc import Iterable
from datetime import datetime

from accounts.domain import User
from accounts.errors import PhoneNumberTaken
from accounts.models import UserModel
from foundation.kernel.clock import from_iso, to_iso
from foundation.kernel.ids import UserId, is_user_id
from foundation.stores.dynamodb import AccessPattern, Consistency, Database, Operation
from foundation.stores.errors import ConditionFailed, TransactionCancelled

GET_USER = AccessPattern("Get user by ID", UserModel, Operation.GET, "user_id", Consistency.EVENTUAL)
GET_USERS = AccessPattern("Get users by ID", UserModel, Operation.BATCH_GET, "user_id", Consistency.EVENTUAL)
CONFIRM_UNKNOWN = AccessPattern(
    "Confirm that users are unknown", UserModel, Operation.BATCH_GET, "user_id", Consistency.STRONG
)
FIND_BY_PHONE = AccessPattern(
    "Find user by phone",
    UserModel,
    Operation.QUERY,
    "phone_number",
    Consistency.EVENTUAL,
    index=UserModel.phone_number_index,
)
FIND_CLAIM = AccessPattern(
    "Find owner of phone number", UserModel, Operation.GET, "user_id = phone#<E.164>", Consistency.STRONG
)
CREATE_USER = AccessPattern(
    "Create user", UserModel, Operation.TRANSACT_PUT, "user_id", condition="the user does not exist"
)
CLAIM_PHONE = AccessPattern(
    "Claim phone number",
    UserModel,
    Operation.TRANSACT_PUT,
    "user_id = phone#<E.164>",
    condition="the claim does not exist",
)
RENAME_USER = AccessPattern("Rename user", UserModel, Operation.UPDATE, "user_id", condition="the user exists")


class UserStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, user_id: UserId) -> User | None:
        if not is_user_id(user_id):
            return None
        item = self._database.get(GET_USER, user_id)
        return _user(item) if item is not None else self._confirm([user_id]).get(user_id)

    def find_all(self, user_ids: Iterable[UserId]) -> dict[UserId, User]:
        """The users with these ids. Never returns claims."""
        wanted = [user_id for user_id in dict.fromkeys(user_ids) if is_user_id(user_id)]
        found = self._read(GET_USERS, wanted)
        missing = [user_id for user_id in wanted if user_id not in found]
        return found | self._confirm(missing)

    def _confirm(self, missing: list[UserId]) -> dict[UserId, User]:
        return self._read(CONFIRM_UNKNOWN, missing) if missing else {}

    def _read(self, pattern: AccessPattern[UserModel], user_ids: list[UserId]) -> dict[UserId, User]:
        items = self._database.batch_get({pattern: [(user_id,) for user_id in user_ids]}).of(pattern)
        return {UserId(item.user_id): _user(item) for item in items.values()}

    def find_by_phone(self, phone_number: str) -> User | None:
        """Find by the index, which may not contain a new user yet."""
        page = self._database.query(FIND_BY_PHONE, phone_number, limit=1)
        return self.find(UserId(page.items[0].user_id)) if page.items else None

    def find_owner(self, phone_number: str) -> UserId | None:
        """Find by the claim, with a strongly consistent read."""
        claim = self._database.get(FIND_CLAIM, _claim_key(phone_number))
        return UserId(claim.owner_id) if claim is not None and claim.owner_id else None

    def create(self, user: User) -> None:
        """Write the user and the claim of its number in one transaction. Raises `PhoneNumberTaken`."""
        claim = UserModel(
            user_id=_claim_key(user.phone_number), owner_id=user.user_id, created_at=to_iso(user.created_at)
        )
        absent = UserModel.user_id.does_not_exist()
        try:
            self._database.transact(
                [
                    self._database.putting(CREATE_USER, _item(user), absent),
                    self._database.putting(CLAIM_PHONE, claim, absent),
                ]
            )
        except TransactionCancelled as error:
            raise PhoneNumberTaken from error

    def rename(self, user_id: UserId, display_name: str, *, now: datetime) -> User | None:
        """Return the renamed user, or None if it does not exist."""
        actions = [UserModel.display_name.set(display_name), UserModel.updated_at.set(to_iso(now))]
        try:
            item = self._database.update(RENAME_USER, (user_id,), actions, UserModel.phone_number.exists())
        except ConditionFailed:
            return None
        return _user(item)


def _claim_key(phone_number: str) -> str:
    return f"phone#{phone_number}"


def _item(user: User) -> UserModel:
    return UserModel(
        user_id=user.user_id,
        phone_number=user.phone_number,
        phone_verified=user.phone_verified,
        display_name=user.display_name,
        created_at=to_iso(user.created_at),
        updated_at=to_iso(user.updated_at),
    )


def _user(item: UserModel) -> User:
    return User(
        user_id=UserId(item.user_id),
        phone_number=item.phone_number or "",
        phone_verified=bool(item.phone_verified),
        display_name=item.display_name or "",
        created_at=from_iso(item.created_at or ""),
        updated_at=from_iso(item.updated_at or ""),
    )
