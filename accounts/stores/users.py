"""The table `users`: users, and the claims that make phone numbers unique.

Users are read eventually consistent. A miss is repeated with a strongly consistent read, so that a new user
is never reported as unknown.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

from pynamodb.expressions.update import Action

from accounts.domain import ProfileChange, User, Visibility
from accounts.errors import PhoneNumberTaken
from accounts.models import UserModel
from foundation.kernel.clock import from_iso, to_iso
from foundation.kernel.ids import UserId, is_user_id
from foundation.stores.dynamodb import AccessPattern, Consistency, Database, Operation, Write
from foundation.stores.errors import ConditionFailed, TransactionCancelled

GET_USER = AccessPattern("Get user by ID", UserModel, Operation.GET, "user_id", Consistency.EVENTUAL)
GET_USERS = AccessPattern("Get users by ID", UserModel, Operation.BATCH_GET, "user_id", Consistency.EVENTUAL)
CONFIRM_UNKNOWN = AccessPattern(
    "Confirm that users are unknown", UserModel, Operation.BATCH_GET, "user_id", Consistency.STRONG
)
GET_SETTINGS = AccessPattern(
    "Get privacy settings to be cached", UserModel, Operation.BATCH_GET, "user_id", Consistency.STRONG
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
    "Create user", UserModel, Operation.TRANSACT_PUT, "user_id", condition="attribute_not_exists(user_id)"
)
CLAIM_PHONE = AccessPattern(
    "Claim phone number",
    UserModel,
    Operation.TRANSACT_PUT,
    "user_id = phone#<E.164>",
    condition="attribute_not_exists(user_id)",
)
GET_USER_NOW = AccessPattern("Get user at login", UserModel, Operation.GET, "user_id", Consistency.STRONG)
SUSPEND_USER = AccessPattern(
    "Suspend user", UserModel, Operation.UPDATE, "user_id", condition="attribute_exists(phone_number)"
)
RESTORE_USER = AccessPattern(
    "Restore user", UserModel, Operation.UPDATE, "user_id", condition="attribute_exists(phone_number)"
)
ERASE_USER = AccessPattern(
    "Erase user", UserModel, Operation.TRANSACT_DELETE, "user_id", condition="attribute_exists(phone_number)"
)
RELEASE_PHONE = AccessPattern(
    "Release phone number",
    UserModel,
    Operation.TRANSACT_DELETE,
    "user_id = phone#<E.164>",
    condition="owner_id = :user_id",
)
CHANGE_PROFILE = AccessPattern(
    "Change profile", UserModel, Operation.UPDATE, "user_id", condition="attribute_exists(phone_number)"
)
RECORD_LAST_SEEN = AccessPattern(
    "Record last seen",
    UserModel,
    Operation.UPDATE,
    "user_id",
    condition="attribute_exists(phone_number) AND (attribute_not_exists(show_presence) OR show_presence = :true) AND "
    "(attribute_not_exists(last_seen) OR last_seen < :since)",
)


class UserStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, user_id: UserId) -> User | None:
        return self._database.loop.run(self.find_on_loop(user_id))

    async def find_on_loop(self, user_id: UserId) -> User | None:
        """The same for coroutines."""
        if not is_user_id(user_id):
            return None
        item = await self._database.on_loop.get(GET_USER, user_id)
        if item is None:
            found = await self._database.on_loop.batch_get({CONFIRM_UNKNOWN: [(user_id,)]})
            item = found.of(CONFIRM_UNKNOWN).get((user_id,))
        return None if item is None else _user(item)

    def find_now(self, user_id: UserId) -> User | None:
        """The user, by a strongly consistent read."""
        item = self._database.get(GET_USER_NOW, user_id) if is_user_id(user_id) else None
        return _user(item) if item is not None else None

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

    def change(self, user_id: UserId, change: ProfileChange, *, now: datetime) -> User | None:
        """Return the changed user, or None if it does not exist."""
        wanted: tuple[tuple[Any, str | bool | None], ...] = (
            (UserModel.display_name, change.display_name),
            (UserModel.read_receipts, change.read_receipts),
            (UserModel.show_presence, change.show_presence),
        )
        actions = [attribute.set(value) for attribute, value in wanted if value is not None]
        return self._change(CHANGE_PROFILE, user_id, *actions, UserModel.updated_at.set(to_iso(now)))

    async def find_visibility(self, user_ids: Iterable[UserId], *, is_strong: bool) -> dict[UserId, Visibility]:
        """What the users that exist let others see. A cache needs a strong read: it keeps what it reads."""
        pattern = GET_SETTINGS if is_strong else GET_USERS
        keys = [(user_id,) for user_id in dict.fromkeys(user_ids) if is_user_id(user_id)]
        items = (await self._database.on_loop.batch_get({pattern: keys})).of(pattern)
        return {UserId(item.user_id): _visibility(item) for item in items.values()}

    async def record_last_seen(self, user_id: UserId, *, now: datetime, unless_since: datetime) -> None:
        """Write the time, unless the user hides its presence or a time was written since `unless_since`."""
        shows, seen = UserModel.show_presence, UserModel.last_seen
        condition = (
            UserModel.phone_number.exists()
            & (shows.does_not_exist() | (shows == True))  # noqa: E712 - an expression of PynamoDB
            & (seen.does_not_exist() | (seen < to_iso(unless_since)))
        )
        with suppress(ConditionFailed):
            await self._database.on_loop.update(RECORD_LAST_SEEN, (user_id,), [seen.set(to_iso(now))], condition)

    def suspend(self, user_id: UserId, *, now: datetime) -> User | None:
        """Return the suspended user, or None if it does not exist. The first suspension's time stays."""
        suspended_at = UserModel.suspended_at
        return self._change(SUSPEND_USER, user_id, suspended_at.set(suspended_at | to_iso(now)))

    def restore(self, user_id: UserId) -> User | None:
        """Return the restored user, or None if it does not exist."""
        return self._change(RESTORE_USER, user_id, UserModel.suspended_at.remove())

    def erase(self, user: User) -> bool:
        """Delete the user and the claim of its number in one transaction. False if the user is gone already.

        A claim that is lost, or somebody else's, is left as it is.
        """
        account = self._database.deleting(ERASE_USER, (user.user_id,), UserModel.phone_number.exists())
        claim = self._database.deleting(
            RELEASE_PHONE, (_claim_key(user.phone_number),), UserModel.owner_id == user.user_id
        )
        return self._erased([account, claim]) or self._erased([account])

    def _erased(self, writes: list[Write]) -> bool:
        try:
            self._database.transact(writes)
        except TransactionCancelled:
            return False
        return True

    def _change(self, pattern: AccessPattern[UserModel], user_id: UserId, *actions: Action) -> User | None:
        if not is_user_id(user_id):
            return None
        try:
            return _user(self._database.update(pattern, (user_id,), actions, UserModel.phone_number.exists()))
        except ConditionFailed:
            return None


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
        suspended_at=from_iso(item.suspended_at) if item.suspended_at else None,
        visibility=_visibility(item),
    )


def _visibility(item: UserModel) -> Visibility:
    return Visibility(
        read_receipts=item.read_receipts is not False,
        show_presence=item.show_presence is not False,
        last_seen=from_iso(item.last_seen) if item.last_seen else None,
    )
