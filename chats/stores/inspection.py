"""The tables of chats as they are, for operators' tools: items may be torn. Items are plain dictionaries."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pynamodb.expressions.update import Action

from chats.models import ChatModel, CounterModel, MembershipModel
from chats.stores.memberships import LIST_CHAT_MEMBERS, LIST_USERS_CHATS
from foundation.kernel.clock import to_iso
from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import AccessPattern, Consistency, Database, Operation
from foundation.stores.dynamodb.async_database import ScanPage
from foundation.stores.dynamodb.table import RawItem, plain

SCAN_CHATS = AccessPattern(
    "Scan chats (offline)", ChatModel, Operation.OFFLINE_SCAN, key="–", consistency=Consistency.EVENTUAL
)
SCAN_COUNTERS = AccessPattern(
    "Scan counters (offline)", CounterModel, Operation.OFFLINE_SCAN, key="–", consistency=Consistency.EVENTUAL
)
SCAN_MEMBERSHIPS = AccessPattern(
    "Scan memberships (offline)", MembershipModel, Operation.OFFLINE_SCAN, key="–", consistency=Consistency.EVENTUAL
)
INSPECT_CHATS = AccessPattern(
    "Inspect chats and claims", ChatModel, Operation.BATCH_GET, key="chat_id", consistency=Consistency.STRONG
)
INSPECT_COUNTERS = AccessPattern(
    "Inspect counters", CounterModel, Operation.BATCH_GET, key="chat_id", consistency=Consistency.STRONG
)
RAISE_COUNTER = AccessPattern(
    "Raise counter", CounterModel, Operation.UPDATE, key="chat_id", condition="sequence_counter = :seen"
)
RESTORE_COUNTER = AccessPattern(
    "Restore counter", CounterModel, Operation.PUT, key="chat_id", condition="attribute_not_exists(chat_id)"
)
CORRECT_COUNTED = AccessPattern(
    "Correct what the counter counts",
    CounterModel,
    Operation.UPDATE,
    key="chat_id",
    condition="sequence_counter = :seen",
)
CORRECT_MEMBERS = AccessPattern(
    "Correct number of members", CounterModel, Operation.UPDATE, key="chat_id", condition="members = :seen"
)
RESTORE_DIRECT_CLAIM = AccessPattern(
    "Restore direct claim",
    ChatModel,
    Operation.PUT,
    key="chat_id = direct#<user_id>#<user_id>",
    condition="attribute_not_exists(chat_id)",
)
DROP_DIRECT_CLAIM = AccessPattern(
    "Drop direct claim",
    ChatModel,
    Operation.DELETE,
    key="chat_id = direct#<user_id>#<user_id>",
    condition="direct_chat_id = :seen",
)
DROP_MEMBERSHIP = AccessPattern(
    "Drop membership without chat",
    MembershipModel,
    Operation.DELETE,
    key="chat_id, user_id",
    condition="joined_at = :seen",
)

Item = Mapping[str, Any]
SCANNED_TABLES = (SCAN_CHATS, SCAN_COUNTERS, SCAN_MEMBERSHIPS)


class ChatInspection:
    """Chats, counters, memberships and direct claims. Repairs are conditional on what was seen."""

    def __init__(self, database: Database) -> None:
        self._database = database.on_loop

    async def scan(self, pattern: AccessPattern[Any], *, limit: int, start: RawItem | None) -> ScanPage:
        """A page of one of `SCANNED_TABLES`."""
        return await self._database.scan(pattern, limit=limit, start=start)

    async def chats(self, ids: Iterable[str]) -> dict[str, Item]:
        """Chats and claims by their `chat_id`, strongly consistent."""
        found = await self._database.batch_get({INSPECT_CHATS: [(each,) for each in ids]})
        return {str(key[0]): plain(raw) for key, raw in found.raw(INSPECT_CHATS).items()}

    async def counters(self, ids: Iterable[str]) -> dict[str, Item]:
        """Counters by `chat_id`, strongly consistent."""
        found = await self._database.batch_get({INSPECT_COUNTERS: [(each,) for each in ids]})
        return {str(key[0]): plain(raw) for key, raw in found.raw(INSPECT_COUNTERS).items()}

    async def members(self, chat_id: ChatId) -> list[Item]:
        """All memberships of a chat, strongly consistent."""
        return await self._collection(LIST_CHAT_MEMBERS, chat_id)

    async def memberships_of(self, user_id: str) -> list[Item]:
        """All memberships of a user, by the index."""
        return await self._collection(LIST_USERS_CHATS, user_id)

    async def raise_counter(
        self, chat_id: ChatId, *, seen: int, to: int, counted: Mapping[str, int], now: datetime
    ) -> None:
        """`counted` is what the counter tells besides. Raises `ConditionFailed` if the counter has moved."""
        actions: list[Action] = [CounterModel.sequence_counter.set(to), CounterModel.updated_at.set(to_iso(now))]
        actions += [getattr(CounterModel, name).set(value) for name, value in counted.items()]
        await self._database.update(RAISE_COUNTER, (chat_id,), actions, CounterModel.sequence_counter == seen)

    async def restore_counter(
        self, chat_id: ChatId, *, at: int, counted: Mapping[str, int], members: int, now: datetime
    ) -> None:
        """Raises `ConditionFailed` if there is one."""
        attributes: dict[str, Any] = {"sequence_counter": at, "members": members, **counted}
        item = CounterModel(chat_id=chat_id, created_at=to_iso(now), updated_at=to_iso(now), **attributes)
        await self._database.put(RESTORE_COUNTER, item, CounterModel.chat_id.does_not_exist())

    async def correct_counted(self, chat_id: ChatId, *, seen: int, counted: Mapping[str, int]) -> None:
        """What the counter tells besides its sequence. Raises `ConditionFailed` if the counter has moved."""
        actions: list[Action] = [getattr(CounterModel, name).set(value) for name, value in counted.items()]
        await self._database.update(CORRECT_COUNTED, (chat_id,), actions, CounterModel.sequence_counter == seen)

    async def correct_members(self, chat_id: ChatId, *, seen: int, to: int) -> None:
        """Raises `ConditionFailed` if somebody has joined or left."""
        members = CounterModel.members
        await self._database.update(CORRECT_MEMBERS, (chat_id,), [members.set(to)], members == seen)

    async def restore_direct_claim(self, claim_id: str, chat_id: ChatId) -> None:
        """Raises `ConditionFailed` if there is one."""
        claim = ChatModel(chat_id=claim_id, direct_chat_id=chat_id)
        await self._database.put(RESTORE_DIRECT_CLAIM, claim, ChatModel.chat_id.does_not_exist())

    async def drop_direct_claim(self, claim: Item) -> None:
        """Raises `ConditionFailed` if it leads elsewhere by now."""
        seen, chat_id = ChatModel.direct_chat_id, claim.get("direct_chat_id")
        condition = seen.does_not_exist() if chat_id is None else seen == chat_id
        await self._database.delete(DROP_DIRECT_CLAIM, (str(claim["chat_id"]),), condition)

    async def drop_membership(self, membership: Item) -> None:
        """Raises `ConditionFailed` if it has been written again."""
        seen, joined_at = MembershipModel.joined_at, membership.get("joined_at")
        condition = seen.does_not_exist() if joined_at is None else seen == joined_at
        await self._database.delete(
            DROP_MEMBERSHIP, (str(membership["chat_id"]), str(membership["user_id"])), condition
        )

    async def _collection(self, pattern: AccessPattern[MembershipModel], hash_key: str) -> list[Item]:
        found: list[Item] = []
        after: dict[str, str | int] | None = None
        while True:
            page = await self._database.query_raw(pattern, hash_key, after=after)
            found += map(plain, page.items)
            if not page.more:
                return found
            after = {"chat_id": found[-1]["chat_id"], "user_id": found[-1]["user_id"]}
