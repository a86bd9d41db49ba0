"""Receipts: the marks of a chat's members, as another member may see them.

Who hides read marks neither shows nor sees them. Everyone sees the own ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accounts.domain import Visibility
from accounts.services.directory import UserDirectory
from chats.services.members import Members
from delivery.domain import Mark, Marks
from delivery.stores.watermarks import WatermarkStore
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import Database


@dataclass(frozen=True, slots=True)
class ReceiptPage:
    items: list[dict[str, Any]]
    next_cursor: str | None


class ChatReceipts:
    """Lists the receipts of a chat. For threads. Reads the settings each time: their cache is the event loop's."""

    def __init__(self, database: Database, *, members: Members, store: WatermarkStore, users: UserDirectory) -> None:
        self._database = database
        self._members = members
        self._store = store
        self._users = users

    def list_receipts(self, chat_id: ChatId, viewer_id: UserId, *, limit: int, cursor: str | None) -> ReceiptPage:
        """A page of receipts by user id. Raises `ChatNotFound`."""
        page = self._members.list_members(chat_id, viewer_id, limit=limit, cursor=cursor)
        user_ids = [member.membership.user_id for member in page.items]
        found = self._database.batch_get(self._store.lookup((user_id, chat_id) for user_id in user_ids))
        marks = self._store.found_in(found)
        readers = [user_id for user_id in user_ids if marks.get((user_id, chat_id), Marks()).read]
        found_settings = self._database.loop.run(self._users.find_visibility({viewer_id, *readers})) if readers else {}
        settings = {user_id: found_settings.get(user_id, Visibility()) for user_id in (viewer_id, *readers)}
        items = [
            receipt(user_id, marks.get((user_id, chat_id), Marks()), viewer_id=viewer_id, settings=settings)
            for user_id in user_ids
        ]
        return ReceiptPage(items, page.next_cursor)


def receipt(
    user_id: UserId, marks: Marks, *, viewer_id: UserId, settings: Mapping[UserId, Visibility]
) -> dict[str, Any]:
    """A member's marks as the viewer may see them. Read marks need the settings of both."""
    shown: dict[str, Any] = {"user_id": user_id, Mark.ACKED.value: marks.delivered}
    if marks.read and (user_id == viewer_id or (settings[user_id].read_receipts and settings[viewer_id].read_receipts)):
        shown[Mark.READ.value] = marks.read
    return shown
