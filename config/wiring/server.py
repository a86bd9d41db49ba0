"""The server of a `web` process. Imports daphne: the reactor must be installed before."""

from collections.abc import Iterable

from django.conf import settings

from config.asgi import api, application
from config.wiring.web import web
from foundation.server.bodies import BodyBudget
from foundation.server.connections import ConnectionsPerAddress
from foundation.server.daphne import ParleyServer
from foundation.server.http import HttpLimits


def server(endpoints: Iterable[str]) -> ParleyServer:
    parts = web()
    limits = HttpLimits(
        body_bytes=settings.MAX_BODY_BYTES,
        request_seconds=settings.REQUEST_TIMEOUT,
        response_seconds=settings.RESPONSE_TIMEOUT,
        connections=ConnectionsPerAddress(settings.MAX_CONNECTIONS_PER_ADDRESS, is_exempt=parts.is_exempt),
        bodies=BodyBudget(settings.HTTP_BODY_BYTES, is_exempt=parts.is_exempt),
        client_address=parts.client_address,
    )
    return ParleyServer(
        application,
        endpoints=list(endpoints),
        limits=limits,
        complete_headers=api.complete,
        ready_callable=parts.start,
        before_shutdown=parts.close,
        fast_sockets=settings.FAST_SOCKETS,
    )
