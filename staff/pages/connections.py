"""`/admin/connections/`: the gateways and their open connections."""

from typing import ClassVar

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from staff import permissions
from staff.pages.base import PAGE_SIZE, StaffPage
from staff.services.audit_log import recorded

MAX_ID_LENGTH = 100


class ConnectionsPage(StaffPage):
    permission = permissions.VIEW_CONNECTIONS
    template = "staff/connections.html"
    actions: ClassVar = {"drain": permissions.DRAIN_GATEWAYS, "resume": permissions.DRAIN_GATEWAYS}

    def get(self, request: HttpRequest) -> HttpResponseBase:
        gateway_id = request.GET.get("gateway", "")
        page = None
        if gateway_id:
            cursor = request.GET.get("cursor", "")
            page = self.services.gateways.list_connections(
                gateway_id, limit=PAGE_SIZE, cursor=int(cursor) if cursor.isdecimal() and len(cursor) < 19 else 0
            )
        return self.render(
            request,
            title="Connections",
            gateways=self.services.recovery().drainer.connections(),
            gateway_id=gateway_id,
            page=page,
        )

    def do_drain(self, request: HttpRequest) -> None:
        gateway_id = request.POST.get("gateway", "")[:MAX_ID_LENGTH]
        with recorded(self.order(request).act("drain", gateway_id)):
            count = self.services.recovery().drainer.start(gateway_id)
        messages.success(request, f"{count} connections of {gateway_id} move on.")

    def do_resume(self, request: HttpRequest) -> None:
        gateway_id = request.POST.get("gateway", "")[:MAX_ID_LENGTH]
        with recorded(self.order(request).act("resume", gateway_id)):
            self.services.recovery().drainer.resume(gateway_id)
        messages.success(request, f"The gateway {gateway_id} takes connections again.")
