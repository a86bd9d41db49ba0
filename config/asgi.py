"""The ASGI application of the `web` process: REST and WebSocket, under daphne (`manage.py web`) or another server."""

import os

from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.urls import path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.embedded")

http = get_asgi_application()

from config.wiring.web import web  # noqa: E402 - the settings must be loaded first
from delivery.gateway.consumer import GatewayConsumer  # noqa: E402
from delivery.gateway.not_found import NoSuchSocket  # noqa: E402
from foundation.server.gate import Gate, NoStore  # noqa: E402
from foundation.server.shares import UserShares  # noqa: E402

parts = web()
parts.clients.producer.start()
gate = Gate(http, limit=settings.HTTP_REQUESTS, free=("/healthz", "/readyz", "/metrics"))

application = ProtocolTypeRouter(
    {
        "http": NoStore(
            UserShares(gate, identify=parts.accounts.verifier.identify, share=settings.HTTP_REQUESTS_PER_USER)
        ),
        "websocket": URLRouter(
            [path("ws", GatewayConsumer.as_asgi(parts=parts.gateway)), path("<path:path>", NoSuchSocket.as_asgi())]
        ),
    }
)
