"""Base of the read-only views outside the API: pages, files, health checks."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt

from foundation.kernel.errors import MethodNotAllowed
from foundation.rest.problems import problem


@method_decorator(csrf_exempt, name="dispatch")
class PlainView(View):
    """Django's `View`, with a 405 as `application/problem+json`. Read-only, so CSRF checks are off."""

    def http_method_not_allowed(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """The response, or for an asynchronous view a coroutine that returns it, as Django's."""
        response = problem(MethodNotAllowed())
        response["Allow"] = ", ".join(name.upper() for name in self.http_method_names if hasattr(self, name))
        return _returning(response) if self.view_is_async else response


async def _returning(response: HttpResponse) -> HttpResponse:
    return response
