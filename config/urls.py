"""Every path Parley answers."""

from django.conf import settings
from django.urls import URLPattern, URLResolver, path, re_path

from accounts.api.urls import routes as account_routes
from chats.api.urls import routes as chat_routes
from config.wiring.demo import demo_of
from config.wiring.staff import staff_services_of
from config.wiring.web import web
from delivery.api.urls import routes as delivery_routes
from delivery.gateway import asyncapi
from demo.views import routes as demo_routes
from foundation.rest.assets import AssetView
from foundation.rest.health import LiveView, MetricsView, ReadyView
from foundation.rest.operators import OperatorAccess
from foundation.rest.pages import PageView
from foundation.rest.schema import DocsView, DocumentView, SchemaView
from messaging.api.urls import routes as message_routes
from staff.pages.site import StaffSite
from staff.signals import record_logins

parts = web()
verify, limits = parts.accounts.verifier.verify, parts.user_limits
operators = OperatorAccess(settings.ADMIN_PORT, is_public=settings.EMBEDDED)

urlpatterns: list[URLPattern | URLResolver] = [
    path("", PageView.as_view(page=settings.WEB_CLIENT / "index.html", embedded=settings.EMBEDDED)),
    path("healthz", LiveView.as_view()),
    path("readyz", ReadyView.as_view(probes=parts.probes, shows_engines=operators.allows)),
    path("readyz/gateway", ReadyView.as_view(probes=parts.gateway_probe, shows_engines=operators.allows)),
    path("metrics", operators.only(MetricsView.as_view())),
    path("api/schema", operators.only(SchemaView.as_view())),
    path("api/asyncapi", operators.only(DocumentView.as_view(body=asyncapi.encoded()))),
    path("api/docs", operators.only(DocsView.as_view())),
    re_path(r"^static/(?P<path>drf_spectacular_sidecar/.+)$", operators.only(AssetView.as_view())),
    # Not all of `/static/`: packages bring files that no page of ours uses.
    re_path(r"^static/(?P<path>(?:parley|admin|staff)/.+)$", AssetView.as_view()),
    *account_routes(
        parts.accounts,
        cursors=parts.clients.cursors,
        address_of=parts.client_address,
        limits=limits,
        public_limits=parts.public_limits,
    ),
    *chat_routes(details=parts.chats.details, members=parts.chats.members, verify=verify, limits=limits),
    *message_routes(
        committer=parts.messaging.committer,
        history=parts.messaging.history,
        annotations=parts.messaging.annotations,
        verify=verify,
        limits=limits,
    ),
    *delivery_routes(
        inbox=parts.delivery.inbox,
        creation=parts.chats.creation,
        watermarks=parts.delivery.watermarks,
        receipts=parts.delivery.receipts,
        presence=parts.delivery.presence,
        verify=verify,
        limits=limits,
    ),
]

# Served by Django's own handler, with its middleware.
staff_site = StaffSite(staff_services_of(parts), requires_totp=settings.STAFF_TOTP == "required")
record_logins(parts.client_address)
urlpatterns += [path("admin/", staff_site.urls)]

if settings.EMBEDDED:
    urlpatterns += demo_routes(demo_of(parts), public_limits=parts.public_limits)

handler400 = "foundation.rest.problems.bad_request"
handler403 = "foundation.rest.problems.forbidden"
handler404 = "foundation.rest.problems.not_found"
handler500 = "foundation.rest.problems.server_error"
