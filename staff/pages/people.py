"""`/admin/people/`: find a person; `/admin/people/{user_id}/`: see and act on one."""

import tempfile
from typing import ClassVar

from django.contrib import messages
from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from foundation.kernel.errors import Invalid, Malformed, Unavailable
from foundation.kernel.ids import ChatId, SessionId, UserId, is_chat_id, is_session_id
from staff import permissions
from staff.pages.base import PAGE_SIZE, StaffPage

ZIP = "application/zip"
SPOOLED_BYTES = 4 * 1024 * 1024


class PeoplePage(StaffPage):
    """Finds by id or phone number. There is no list of all people: DynamoDB would have to read the whole table."""

    permission = permissions.VIEW_PEOPLE
    template = "staff/people.html"

    def get(self, request: HttpRequest) -> HttpResponseBase:
        query = request.GET.get("q", "").strip()
        if is_chat_id(query):
            return redirect("admin:chat", ChatId(query))
        person = self.services.people.find(query) if query else None
        return self.render(request, title="People", query=query, person=person)


class PersonPage(StaffPage):
    permission = permissions.VIEW_PEOPLE
    template = "staff/person.html"
    actions: ClassVar = {
        "revoke_session": permissions.REVOKE_SESSIONS,
        "revoke_sessions": permissions.REVOKE_SESSIONS,
        "suspend": permissions.SUSPEND_PEOPLE,
        "restore": permissions.SUSPEND_PEOPLE,
        "export": permissions.EXPORT_PEOPLE,
        "erase": permissions.ERASE_PEOPLE,
    }

    def get(self, request: HttpRequest, user_id: UserId) -> HttpResponseBase:
        person = self.services.people.get(user_id)
        if person.user_id != user_id:  # found by the number
            return redirect("admin:person", person.user_id)
        after = request.GET.get("sessions_after", "")
        if after and not is_session_id(after):
            raise Malformed("sessions_after is not the id of a session")
        sessions, sessions_after = self.services.sessions.list_sessions(
            user_id, limit=PAGE_SIZE, after=SessionId(after) if after else None
        )
        connections, problem = [], ""
        try:
            connections = self.services.gateways.connections_of(user_id)
        except Unavailable as error:
            problem = error.detail
        return self.render(
            request,
            title=person.display_name,
            person=person,
            sessions=sessions,
            sessions_after=sessions_after,
            chats=self.services.list_chats(user_id, limit=PAGE_SIZE, cursor=request.GET.get("chats_after")),
            connections=connections,
            connections_problem=problem,
        )

    def do_revoke_session(self, request: HttpRequest, user_id: UserId) -> None:
        session_id = SessionId(request.POST.get("session_id", ""))
        self.services.people.revoke_session(user_id, session_id, self.order(request))
        messages.success(request, f"The session {session_id} was revoked.")

    def do_revoke_sessions(self, request: HttpRequest, user_id: UserId) -> None:
        count = self.services.people.revoke_sessions(user_id, self.order(request))
        messages.success(request, f"{count} sessions were revoked.")

    def do_suspend(self, request: HttpRequest, user_id: UserId) -> None:
        self.services.people.suspend(user_id, self.order(request))
        messages.success(request, "The account is suspended.")

    def do_restore(self, request: HttpRequest, user_id: UserId) -> None:
        self.services.people.restore(user_id, self.order(request))
        messages.success(request, "The account is restored.")

    def do_export(self, request: HttpRequest, user_id: UserId) -> HttpResponseBase:
        file = tempfile.SpooledTemporaryFile(SPOOLED_BYTES)  # noqa: SIM115 - the response closes it
        self.services.people.export(user_id, self.order(request), file)  # type: ignore[arg-type]
        file.seek(0)
        return FileResponse(file, as_attachment=True, filename=f"{user_id}.zip", content_type=ZIP)

    def do_erase(self, request: HttpRequest, user_id: UserId) -> HttpResponseBase:
        if request.POST.get("confirm") != user_id:
            message = "Repeat the person's id to confirm."
            raise Invalid(message, fields={"confirm": [message]})
        self.services.people.erase(user_id, self.order(request))
        messages.success(request, f"The account {user_id} is erased.")
        return redirect("admin:people")
