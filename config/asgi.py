"""The `web` process: HTTP and WebSocket under daphne."""

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.embedded")

application = ProtocolTypeRouter({"http": get_asgi_application()})
