"""`/admin/chats/{chat_id}/`: a chat, its members and its log. Contents are shown only after a reason was given."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from foundation.kernel.clock import from_iso, to_iso
from foundation.kernel.errors import Malformed
from foundation.kernel.ids import ChatId, UserId, is_user_id
from messaging.services.history import Window
from staff import permissions
from staff.findings import Finding
from staff.pages.base import PAGE_SIZE, StaffPage
from staff.services.audit_log import record, recorded

READING_TIME = timedelta(minutes=15)
"""For which the contents of a chat stay visible to whoever has given a reason."""
MAX_DIGITS = 17
READING = "reading"
"""Where the session keeps until when which chats may be read."""


class ChatPage(StaffPage):
    permission = permissions.VIEW_CHATS
    template = "staff/chat.html"
    actions: ClassVar = {
        "read": permissions.READ_MESSAGES,
        "delete_entry": permissions.DELETE_ENTRIES,
        "check": permissions.RECONCILE_CHATS,
        "repair": permissions.RECONCILE_CHATS,
    }

    def get(self, request: HttpRequest, chat_id: ChatId, findings: Sequence[Finding] | None = None) -> HttpResponseBase:
        state = self.services.chats.get(chat_id)
        window = Window(after=_sequence(request, "after"), before=_sequence(request, "before"), limit=PAGE_SIZE)
        first, last = window.bounds(state.last_sequence)
        after = request.GET.get("members_after", "")
        if after and not is_user_id(after):
            raise Malformed("members_after is not the id of a person")
        members = self.services.chats.list_members(chat_id, limit=PAGE_SIZE, after=UserId(after) if after else None)
        entries = self.services.list_entries(chat_id, first, last)
        names = self.services.list_names(
            [
                state.chat.created_by,
                *(member.user_id for member in members.memberships),
                *(entry["sender_id"] for entry in entries),
            ]
        )
        return self.render(
            request,
            title=state.chat.name or "Direct chat",
            state=state,
            creator=names.get(state.chat.created_by),
            members=members,
            named_members=[(member, names.get(member.user_id)) for member in members.memberships],
            entries=[(entry, names.get(entry["sender_id"])) for entry in entries],
            older=first if first > 1 else None,
            newer=last if last < state.last_sequence else None,
            is_readable=self._is_readable(request, chat_id),
            findings=findings,
        )

    def do_check(self, request: HttpRequest, chat_id: ChatId) -> HttpResponseBase:
        """Look for what does not agree in DynamoDB, and between DynamoDB and Kafka."""
        return self._examine(request, chat_id, repair=False)

    def do_repair(self, request: HttpRequest, chat_id: ChatId) -> HttpResponseBase:
        """The same, and repair what leaves no doubt."""
        return self._examine(request, chat_id, repair=True)

    def _examine(self, request: HttpRequest, chat_id: ChatId, *, repair: bool) -> HttpResponseBase:
        self.services.chats.get(chat_id)
        with recorded(self.order(request).act("repair_chat" if repair else "check_chat", chat_id)):
            findings = self.services.chat_check.run(chat_id, repair=repair)
        return self.get(request, chat_id, findings=findings)

    def do_delete_entry(self, request: HttpRequest, chat_id: ChatId) -> None:
        text = request.POST.get("sequence", "")
        if not (text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS):
            raise Malformed("The sequence is not a number")
        self.services.moderation.delete_entry(chat_id, int(text), self.order(request))
        messages.success(request, f"The message {text} was deleted.")

    def do_read(self, request: HttpRequest, chat_id: ChatId) -> None:
        """Record the reason, then show the contents of this chat to this session for a while."""
        self.services.chats.get(chat_id)
        record(self.order(request).act("read_messages", chat_id), clock=self.services.clock)
        until = to_iso(self._now + READING_TIME)
        request.session[READING] = {**request.session.get(READING, {}), chat_id: until}
        messages.success(request, f"The messages are visible for {READING_TIME.seconds // 60} minutes.")

    def _is_readable(self, request: HttpRequest, chat_id: ChatId) -> bool:
        until = request.session.get(READING, {}).get(chat_id)
        may = request.user.has_perm(f"staff.{permissions.READ_MESSAGES}")
        return may and until is not None and from_iso(until) > self._now

    @property
    def _now(self) -> datetime:
        return self.services.clock.now()


def _sequence(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS):
        raise Malformed(f"{name} is not a sequence")
    return int(text)
