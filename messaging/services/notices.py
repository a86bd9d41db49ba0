"""Changes of a chat's name and members, stored in its log. Implements the interface of `chats.services.chat_log`."""

from chats.domain import Command
from chats.services.chat_log import Notice
from foundation.kernel.clock import from_iso
from foundation.kernel.ids import ChatId, UserId
from foundation.kernel.loops import ServiceLoop
from foundation.kernel.tracing import TRACEPARENT
from messaging.domain import Draft, Kind
from messaging.services.committer import Committer
from messaging.services.recent_chats import RecentChats


class CommandLog:
    """For worker threads, which wait until the command is stored and its notice is handed to Kafka."""

    def __init__(self, committer: Committer, *, loop: ServiceLoop, recent: RecentChats | None = None) -> None:
        self._committer = committer
        self._loop = loop
        self._recent = recent

    def commit(self, chat_id: ChatId, caller_id: UserId, command: Command) -> Notice:
        draft = Draft(
            chat_id, caller_id, client_message_id="", kind=Kind.NOTICE, command=command, traceparent=TRACEPARENT.get()
        )
        entry = self._loop.run(self._committer.send(draft)).message
        return Notice(entry.sequence, from_iso(entry.created_at), entry.notice or {})

    def note(self, chat_id: ChatId) -> None:
        if self._recent is not None:
            self._loop.call_soon(self._recent.note, [chat_id])
