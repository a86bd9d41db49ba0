"""`/admin/audit/`: what staff has done, newest first. Read-only."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

from foundation.kernel.errors import Malformed
from foundation.kernel.ids import is_chat_id, is_user_id
from staff import permissions
from staff.pages.base import PAGE_SIZE, StaffPage
from staff.services.audit_log import list_records


class AuditPage(StaffPage):
    permission = permissions.VIEW_AUDIT_LOG
    template = "staff/audit.html"
    http_method_names = ["get", "head"]

    def get(self, request: HttpRequest) -> HttpResponseBase:
        query = request.GET.get("q", "").strip()
        records = list_records(about=query, before=_position(request.GET.get("before", "")), limit=PAGE_SIZE + 1)
        shown = records[:PAGE_SIZE]
        before = shown[-1].pk if len(records) > PAGE_SIZE else None
        pages = [(record, _page_of(record.target)) for record in shown]
        return self.render(request, title="Audit log", query=query, records=pages, before=before)


def _page_of(target: str) -> str | None:
    """The page of the person or the chat with this id."""
    if is_user_id(target):
        return reverse("admin:person", args=[target])
    return reverse("admin:chat", args=[target]) if is_chat_id(target) else None


def _position(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise Malformed("The position is not a number")
    return int(text)
