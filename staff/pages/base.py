"""The base of the pages: permissions, actions, problems."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views import View

from foundation.kernel.errors import Forbidden, Invalid, Malformed, NotFound, ParleyError, Unavailable
from foundation.rest.problems import status_of
from foundation.rest.views import given
from foundation.stores.errors import EventLogUnavailable
from staff.assembly import StaffServices
from staff.permissions import NAMES
from staff.services.people import Order

if TYPE_CHECKING:  # the site imports the pages
    from staff.pages.site import StaffSite

PAGE_SIZE = 50

Do = Callable[..., HttpResponseBase | None]


class StaffPage(View):
    """`permission` is for looking. `actions` maps what can be posted to the permission that it needs; the method
    `do_<action>` does it and may return a response of its own.
    """

    http_method_names = ["get", "head", "post"]
    permission: ClassVar[str]
    actions: ClassVar[Mapping[str, str]] = {}
    template: ClassVar[str]
    site: "StaffSite" = given(object)  # type: ignore[assignment]
    services = given(StaffServices)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            require_permission(request, self.permission)
            return super().dispatch(request, *args, **kwargs)
        except PermissionDenied:
            return show_problem(self.site, request, not_permitted())
        except ParleyError as error:
            return show_problem(self.site, request, error)
        except TimeoutError:
            return show_problem(
                self.site, request, Unavailable("The service did not answer in time: try again shortly")
            )

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        action = request.POST.get("action", "")
        if action not in self.actions:
            raise Malformed("The page does not offer this action")
        require_permission(request, self.actions[action])
        do: Do = getattr(self, f"do_{action}")
        return do(request, *args, **kwargs) or redirect(request.get_full_path())

    def render(self, request: HttpRequest, *, title: str, status: int = 200, **context: Any) -> HttpResponseBase:
        may = {codename: request.user.has_perm(f"staff.{codename}") for codename in NAMES}
        found = {**self.site.each_context(request), "may": may, "title": title, **context}
        return TemplateResponse(request, self.template, found, status=status)

    def order(self, request: HttpRequest) -> Order:
        return Order(by=self.site.actor_of(request), reason=request.POST.get("reason", ""))


def show_problem(site: "StaffSite", request: HttpRequest, error: ParleyError) -> HttpResponseBase:
    """A page that says what is wrong and leads on."""
    next_url, next_label = _next_step(request, error)
    # Kafka's title is for whoever has sent a message.
    title = Unavailable.title if isinstance(error, EventLogUnavailable) else error.title
    context = {"title": title, "detail": error.detail, "next_url": next_url, "next_label": next_label}
    return TemplateResponse(
        request, "staff/problem.html", {**site.each_context(request), **context}, status=status_of(error)
    )


def not_permitted() -> Forbidden:
    return Forbidden("Your account lacks the right to do this: a superuser can give it.")


def _next_step(request: HttpRequest, error: ParleyError) -> tuple[str, str]:
    if request.method == "POST":
        return request.get_full_path(), "Back to the page"
    if isinstance(error, Unavailable):
        return request.get_full_path(), "Try again"
    if isinstance(error, Malformed | Invalid):
        return request.path, "Start again"
    if isinstance(error, NotFound):
        return reverse("admin:people"), "Find a person or a chat"
    return reverse("admin:index"), "Home"


def require_permission(request: HttpRequest, codename: str) -> None:
    """Raises `PermissionDenied`."""
    if not request.user.has_perm(f"staff.{codename}"):
        raise PermissionDenied
