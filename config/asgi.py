"""The ASGI application of the `web` process: REST and WebSocket, under daphne (`manage.py web`).

Another server runs it too, without the limits of connections, bodies, time and frames, which are in the server
(`foundation.server`): `daphne config.asgi:application` also speaks HTTP/2. Expose `manage.py web` alone.

Two handlers serve HTTP:

- `/admin/`: Django's own, with the `MIDDLEWARE` of the settings (sessions, CSRF, messages) and Django's database. What
  the staff pages need is added there and to `urlpatterns`, and reaches nothing else.
- everything else: `ApiHandler` behind `Edge`, which no `MIDDLEWARE` slows down (ADR-026).
"""

import os
from typing import Any

from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.urls import path, re_path

from config.start import log_start, refusing_in_sentences

# `manage.py` has set it. Another server may listen on any address, so it gets no laptop's settings by default.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.production")

with refusing_in_sentences():
    django = get_asgi_application()

# After the settings.
from config.wiring.web import web
from delivery.gateway.consumer import GatewayConsumer
from delivery.gateway.not_found import NoSuchSocket
from foundation.rest import health
from foundation.rest.handler import ApiHandler
from foundation.server.edge import Edge, EdgeOptions
from foundation.server.gate import Gate
from foundation.server.shares import AddressShares, UserShares

ADMIN = "/admin/"

with refusing_in_sentences():
    log_start("web")
parts = web()
parts.clients.producer.start()

gate = Gate(ApiHandler(), limit=settings.HTTP_REQUESTS, free=health.PATHS)
shares = UserShares(
    gate,
    identify=parts.accounts.verifier.identify,
    share=settings.HTTP_REQUESTS_PER_USER,
    addresses=AddressShares(settings.HTTP_REQUESTS_PER_ADDRESS, parts.client_address, parts.is_exempt),
    free=health.PATHS,
)
api = Edge(
    shares,
    EdgeOptions(
        allowed_hosts=settings.ALLOWED_HOSTS,
        allowed_origins=settings.ALLOWED_ORIGINS,
        https_only=settings.SECURE_SSL_REDIRECT,
        https_exempt=settings.SECURE_REDIRECT_EXEMPT,
        probes=health.PATHS,
        trusts_forwarded_proto=settings.SECURE_PROXY_SSL_HEADER is not None,
        hsts_seconds=settings.SECURE_HSTS_SECONDS,
    ),
)
admin = Gate(django, limit=settings.HTTP_REQUESTS)


async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await (admin if scope["path"].startswith(ADMIN) else api)(scope, receive, send)


application = ProtocolTypeRouter(
    {
        "http": http,
        "websocket": URLRouter(
            [path("ws", GatewayConsumer.as_asgi(parts=parts.gateway)), re_path("^", NoSuchSocket.as_asgi())]
        ),
    }
)
