"""Erases a person: memberships, marks, sessions, claims and the account go; messages keep their places.

The person is suspended first, so that nothing new appears meanwhile. The account goes last: until then a failed erasure
can be repeated.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accounts.domain import User
from accounts.services.records import UserRecords
from accounts.services.sessions import Sessions
from accounts.services.suspension import Suspensions
from chats.domain import ListedChat, Membership, Role
from chats.services.members import Members
from chats.services.records import ChatRecords
from delivery.services.watermarks import Watermarks
from foundation.kernel.ids import ChatId, UserId
from foundation.kernel.loops import ServiceLoop
from messaging.domain import Kind
from staff.services.export import PersonExport

if TYPE_CHECKING:  # it imports `people`, which imports this module
    from staff.services.moderation import Moderation

PAGE = 200


@dataclass(frozen=True, slots=True)
class ErasureServices:
    """Where a person has left something."""

    records: UserRecords
    sessions: Sessions
    suspensions: Suspensions
    members: Members
    chats: ChatRecords
    watermarks: Watermarks
    loop: ServiceLoop


class Erasure:
    """With `moderation`, the person's messages are deleted too; without, they stay."""

    def __init__(
        self, services: ErasureServices, *, export: PersonExport, moderation: "Moderation | None" = None
    ) -> None:
        self._services = services
        self._export = export
        self._moderation = moderation

    def erase(self, user: User) -> None:
        """Raises `UserNotFound` if it is already done."""
        user_id = user.user_id
        self._services.suspensions.suspend(user_id)
        for chat in list(self._export.list_chats(user_id)):
            self._redact(chat.state.chat.chat_id, user_id)
            self._leave(chat, user_id)
        self._services.loop.run(self._services.watermarks.erase(user_id))
        self._services.sessions.revoke_all(user_id)
        self._services.records.erase(user)

    def _redact(self, chat_id: ChatId, user_id: UserId) -> None:
        if self._moderation is None:
            return
        for message in self._export.own_messages(chat_id, user_id):
            if message.kind is Kind.MESSAGE and message.deleted_at is None:
                self._moderation.redact(message)

    def _leave(self, listed: ListedChat, user_id: UserId) -> None:
        """Leave a group, whose owner hands it over first. Nobody can leave a direct chat: its membership is ended."""
        chat_id = listed.state.chat.chat_id
        is_owner = listed.membership.role is Role.OWNER
        if listed.state.chat.is_direct or (is_owner and not self._hand_over(chat_id, user_id)):
            self._services.chats.end_membership(chat_id, user_id)
        else:
            self._services.members.remove(chat_id, user_id, user_id)

    def _hand_over(self, chat_id: ChatId, owner_id: UserId) -> bool:
        """Make the longest-standing admin the owner, or else the longest-standing member. False if there is nobody."""
        others = (each for each in self._members(chat_id) if each.user_id != owner_id)
        successor = min(others, key=lambda each: (each.role is not Role.ADMIN, each.joined_at), default=None)
        if successor is None:
            return False
        self._services.members.change_role(chat_id, owner_id, successor.user_id, Role.OWNER)
        return True

    def _members(self, chat_id: ChatId) -> Iterator[Membership]:
        after: UserId | None = None
        while True:
            page = self._services.chats.list_members(chat_id, limit=PAGE, after=after)
            yield from page.memberships
            if not page.more:
                return
            after = page.memberships[-1].user_id
