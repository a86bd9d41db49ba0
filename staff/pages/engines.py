"""`/admin/engines/`: health and latency, the tables, and how far each consumer is behind."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from staff import permissions
from staff.pages.base import StaffPage


class EnginesPage(StaffPage):
    permission = permissions.VIEW_ENGINES
    template = "staff/engines.html"

    def get(self, request: HttpRequest) -> HttpResponseBase:
        engines = self.services.engines
        return self.render(
            request,
            title="Engines",
            health=engines.health(),
            tables=engines.tables(),
            lag=engines.lag(),
        )
