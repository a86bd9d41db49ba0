"""Deletes messages for staff, as entries of the chat's log, so that every client learns of it."""

import time
from collections.abc import Callable

from chats.domain import Role
from chats.services.records import ChatRecords
from foundation.kernel.errors import RateLimited
from foundation.kernel.ids import ChatId, UserId
from foundation.kernel.loops import ServiceLoop
from messaging.domain import Draft, Kind, Message
from messaging.errors import MessageNotFound
from messaging.services.committer import Committer
from messaging.services.history import History
from staff.services.audit_log import recorded
from staff.services.people import Order

PAUSE_SECONDS = 0.1
MEMBERS = 1000


class Moderation:
    """A deletion is made in the name of the author, or of the group's owner if the author has left."""

    def __init__(
        self,
        *,
        chats: ChatRecords,
        history: History,
        committer: Committer,
        loop: ServiceLoop,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._chats = chats
        self._history = history
        self._committer = committer
        self._loop = loop
        self._sleep = sleep

    def delete_entry(self, chat_id: ChatId, sequence: int, order: Order) -> None:
        """Raises `MessageNotFound`, also for entries that are no messages."""
        found = self._loop.run(self._history.messages_at([(chat_id, sequence)])).get((chat_id, sequence))
        if found is None or found.kind is not Kind.MESSAGE:
            raise MessageNotFound
        with recorded(order.act("delete_entry", chat_id, {"sequence": sequence})):
            self.redact(found, by=self._deleter(found))

    def redact(self, message: Message, *, by: UserId) -> None:
        """Remove the content; the message keeps its place. Waits where `by` is over the limit of sends."""
        draft = Draft(
            chat_id=message.chat_id, sender_id=by, client_message_id="", kind=Kind.DELETION, target=message.sequence
        )
        while True:
            try:
                self._loop.run(self._committer.send(draft))
            except RateLimited as error:
                self._sleep(error.retry_after or PAUSE_SECONDS)
            else:
                return

    def _deleter(self, message: Message) -> UserId:
        members = self._chats.list_members(message.chat_id, limit=MEMBERS).memberships
        if any(each.user_id == message.sender_id for each in members):
            return message.sender_id
        return next((each.user_id for each in members if each.role is Role.OWNER), message.sender_id)
