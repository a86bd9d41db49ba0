"""The ASGI application of the `web` process: REST and WebSocket, under daphne (`manage.py web`) or another server."""

import os

from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.urls import path

from config.start import log_start, refusing_in_sentences

# `manage.py` has set it. Another server may listen on any address, so it gets no laptop's settings by default.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.production")

with refusing_in_sentences():
    http = get_asgi_application()

# After the settings.
from config.wiring.web import web
from delivery.gateway.consumer import GatewayConsumer
from delivery.gateway.not_found import NoSuchSocket
from foundation.server.gate import Gate, NoStore
from foundation.server.shares import UserShares

log_start("web")
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
