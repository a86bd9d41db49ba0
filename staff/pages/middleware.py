"""Middleware of the admin pages: on the operators' port alone, and a strict Content-Security-Policy."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from foundation.kernel.errors import NotFound
from foundation.rest.operators import OperatorAccess
from foundation.rest.pages import DIRECTIVES, policy
from foundation.rest.problems import problem

# Django admin's jQuery turns text into markup, so Trusted Types cannot be required.
POLICY = policy(
    {
        **{name: value for name, value in DIRECTIVES.items() if "trusted-types" not in name},
        "form-action": "'self'",
    }
)


class StaffPages:
    """With `ADMIN_PORT`, the pages exist on that port alone; in an embedded run on every port."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response
        self._access = OperatorAccess(settings.ADMIN_PORT, is_public=settings.EMBEDDED or not settings.ADMIN_PORT)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not self._access.allows(request):
            return problem(NotFound("No such path"))
        response = self._get_response(request)
        response["Content-Security-Policy"] = POLICY
        response["Referrer-Policy"] = "same-origin"
        return response
