"""The admin site: its pages, who may enter, and the second factor."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from http import HTTPStatus
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils.decorators import method_decorator
from django.utils.safestring import mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django_otp import login as verify_login
from django_otp import user_has_device

from foundation.kernel.errors import NotFound
from staff.assembly import StaffServices
from staff.pages.accounts import AccountAdmin
from staff.pages.audit import AuditPage
from staff.pages.base import StaffPage, not_permitted, show_problem
from staff.pages.chats import ChatPage
from staff.pages.connections import ConnectionsPage
from staff.pages.engines import EnginesPage
from staff.pages.login import EnrolmentForm, StaffLoginForm, may_enrol, qr_code
from staff.pages.people import PeoplePage, PersonPage
from staff.services import second_factor
from staff.services.audit_log import Act, Actor, record


@dataclass(frozen=True, slots=True)
class Entry:
    """A page. Those with a `label` are in the menu."""

    route: str
    name: str
    page: type[StaffPage]
    label: str = ""


ENTRIES = (
    Entry("people/", "people", PeoplePage, "People"),
    Entry("people/<str:user_id>/", "person", PersonPage),
    Entry("chats/<str:chat_id>/", "chat", ChatPage),
    Entry("connections/", "connections", ConnectionsPage, "Connections"),
    Entry("engines/", "engines", EnginesPage, "Engines"),
    Entry("audit/", "audit", AuditPage, "Audit log"),
)


class StaffSite(AdminSite):
    """`requires_totp`: whoever has no device sees only the page that enrols one."""

    site_header = "Parley"
    site_title = "Parley staff"
    index_title = "Staff"
    site_url = None
    index_template = "staff/index.html"
    login_template = "staff/login.html"

    def __init__(self, services: StaffServices, *, requires_totp: bool) -> None:
        super().__init__()
        self._services = services
        self._requires_totp = requires_totp
        self.login_form = partial(  # type: ignore[assignment]
            StaffLoginForm, attempts=services.attempts, address_of=services.address_of
        )
        self.register(User, AccountAdmin)

    def actor_of(self, request: HttpRequest) -> Actor:
        return Actor(request.user.get_username(), self._services.address_of(request))

    def has_permission(self, request: HttpRequest) -> bool:
        if not super().has_permission(request):
            return False
        is_verified: bool = request.user.is_verified()  # type: ignore[union-attr]
        return is_verified or not (self._requires_totp or user_has_device(request.user))

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().each_context(request), "may_enrol": may_enrol(request.user)}

    def admin_view(self, view: Callable[..., Any], cacheable: bool = False) -> Any:
        """Whoever may not see a page of Django's, or asks for one that does not exist, gets a page too."""

        @wraps(view)
        def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            try:
                return view(request, *args, **kwargs)
            except PermissionDenied:
                return show_problem(self, request, not_permitted())
            except Http404:
                return show_problem(self, request, NotFound("There is no page at this address."))

        return super().admin_view(shown, cacheable)

    def get_urls(self) -> list[URLPattern | URLResolver]:
        pages = [
            path(entry.route, self.admin_view(entry.page.as_view(site=self, services=self._services)), name=entry.name)
            for entry in ENTRIES
        ]
        # Nothing here has a page outside, and Django's redirect to it fails for permissions, which have no table.
        djangos = [pattern for pattern in super().get_urls() if getattr(pattern, "name", None) != "view_on_site"]
        return [path("totp/", self.enrol, name="totp"), *pages, *djangos]

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        menu = [
            {
                "name": entry.label,
                "object_name": entry.name,
                "admin_url": reverse(f"admin:{entry.name}"),
                "view_only": True,
            }
            for entry in ENTRIES
            if entry.label and request.user.has_perm(f"staff.{entry.page.permission}")
        ]
        own = {"name": "Parley", "app_label": "staff", "app_url": reverse("admin:index"), "models": menu}
        return [*([own] if menu and app_label is None else []), *super().get_app_list(request, app_label)]

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if self._requires_totp and may_enrol(request.user):
            return redirect("admin:totp")
        return super().login(request, extra_context)

    @method_decorator(transaction.atomic)
    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        response = super().password_change(request, extra_context)
        if response.status_code == HTTPStatus.FOUND:
            actor = self.actor_of(request)
            record(Act(actor, "change_password", actor.name, "their own"))
        return response

    @method_decorator((never_cache, csrf_protect))
    def enrol(self, request: HttpRequest) -> HttpResponseBase:
        """Give whoever has no device a key, and accept it once a code proves that it arrived."""
        user = request.user
        if not (isinstance(user, User) and may_enrol(user)):
            return redirect("admin:index")
        device = second_factor.pending_device(user)
        form = EnrolmentForm(request.POST or None)
        if form.is_valid():
            if second_factor.confirm(device, form.cleaned_data["otp_token"], by=self.actor_of(request)):
                verify_login(request, device)
                return redirect("admin:index")
            form.add_error("otp_token", "This is not the current code.")
        context = {
            **self.each_context(request),
            "title": "Second factor",
            "form": form,
            "uri": device.config_url,
            # Made of digits and letters by the library.
            "qr_code": mark_safe(qr_code(device.config_url)),  # noqa: S308
        }
        return TemplateResponse(request, "staff/totp.html", context)


def show_expired_form(request: HttpRequest, reason: str = "") -> HttpResponse:
    """For a form without the browser's token: another tab has logged in or out since, or another site sent it."""
    context = {
        "site_header": StaffSite.site_header,
        "site_title": StaffSite.site_title,
        "title": "This page is out of date",
        "detail": "You have logged in or out since it was loaded, or the browser takes no cookies. Nothing was done.",
        "next_url": request.get_full_path(),
        "next_label": "Load the page again",
    }
    return render(request, "staff/problem.html", context, status=HTTPStatus.FORBIDDEN)
