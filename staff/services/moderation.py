"""Deletes messages for staff, as entries of the chat's log, so that every client learns of it."""

from foundation.kernel.ids import ChatId
from foundation.kernel.loops import ServiceLoop
from messaging.domain import Draft, Kind, Message
from messaging.errors import MessageNotFound
from messaging.services.committer import Committer
from messaging.services.history import History
from staff.services.audit_log import recorded
from staff.services.people import Order


class Moderation:
    """A deletion is made in the name of the author, who may have left the chat or be erased."""

    def __init__(self, *, history: History, committer: Committer, loop: ServiceLoop) -> None:
        self._history = history
        self._committer = committer
        self._loop = loop

    def delete_entry(self, chat_id: ChatId, sequence: int, order: Order) -> None:
        """Raises `MessageNotFound`, also for entries that are no messages."""
        found = self._loop.run(self._history.messages_at([(chat_id, sequence)])).get((chat_id, sequence))
        if found is None or found.kind is not Kind.MESSAGE:
            raise MessageNotFound
        with recorded(order.act("delete_entry", chat_id, {"sequence": sequence})):
            self.redact(found)

    def redact(self, message: Message) -> None:
        """Remove the content; the message keeps its place."""
        draft = Draft(
            chat_id=message.chat_id,
            sender_id=message.sender_id,
            client_message_id="",
            kind=Kind.DELETION,
            target=message.sequence,
            by_staff=True,
        )
        self._loop.run(self._committer.send(draft))
