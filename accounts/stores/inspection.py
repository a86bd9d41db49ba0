"""The table `users` as it is, for operators' tools: items may be torn. Items are plain dictionaries."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from accounts.models import UserModel
from foundation.kernel.clock import to_iso
from foundation.stores.dynamodb import AccessPattern, Consistency, Database, Operation
from foundation.stores.dynamodb.async_database import ScanPage
from foundation.stores.dynamodb.table import RawItem, plain

SCAN_USERS = AccessPattern(
    "Scan users (offline)", UserModel, Operation.OFFLINE_SCAN, key="–", consistency=Consistency.EVENTUAL
)
INSPECT_USERS = AccessPattern(
    "Inspect users and claims", UserModel, Operation.BATCH_GET, key="user_id", consistency=Consistency.STRONG
)
RESTORE_PHONE_CLAIM = AccessPattern(
    "Restore phone claim",
    UserModel,
    Operation.PUT,
    key="user_id = phone#<E.164>",
    condition="attribute_not_exists(user_id)",
)
DROP_PHONE_CLAIM = AccessPattern(
    "Drop phone claim", UserModel, Operation.DELETE, key="user_id = phone#<E.164>", condition="owner_id = :seen"
)

Item = Mapping[str, Any]


class UserInspection:
    """Users and the claims of their phone numbers. Repairs are conditional on what was seen."""

    def __init__(self, database: Database) -> None:
        self._database = database.on_loop

    async def scan(self, *, limit: int, start: RawItem | None) -> ScanPage:
        return await self._database.scan(SCAN_USERS, limit=limit, start=start)

    async def users(self, ids: Iterable[str]) -> dict[str, Item]:
        """Users and claims by their `user_id`, strongly consistent."""
        found = await self._database.batch_get({INSPECT_USERS: [(each,) for each in ids]})
        return {str(key[0]): plain(raw) for key, raw in found.raw(INSPECT_USERS).items()}

    async def restore_claim(self, claim_id: str, *, owner_id: str, now: datetime) -> None:
        """Raises `ConditionFailed` if there is one."""
        claim = UserModel(user_id=claim_id, owner_id=owner_id, created_at=to_iso(now))
        await self._database.put(RESTORE_PHONE_CLAIM, claim, UserModel.user_id.does_not_exist())

    async def drop_claim(self, claim: Item) -> None:
        """Raises `ConditionFailed` if it has another owner by now."""
        seen, owner_id = UserModel.owner_id, claim.get("owner_id")
        condition = seen.does_not_exist() if owner_id is None else seen == owner_id
        await self._database.delete(DROP_PHONE_CLAIM, (str(claim["user_id"]),), condition)
