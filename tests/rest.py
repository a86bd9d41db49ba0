"""Django's test client, served by `ApiHandler` on the event loop of the services, as in `web`."""

from collections.abc import Sequence
from typing import Any

import redis
from django.conf import settings
from django.http import HttpRequest
from django.test.client import ClientHandler
from rest_framework.test import APIClient

from foundation.kernel.loops import ServiceLoop, shared_loop
from foundation.rest.addresses import ClientAddress
from foundation.rest.handler import ApiHandler
from foundation.rest.throttling import PUBLIC, PublicLimits, UserLimits
from foundation.stores.redis.client import RedisOptions, connect_async
from foundation.stores.redis.limits import AsyncRateLimiter, FallbackRateLimiter, Limit


class _LoopHandler(ClientHandler):
    """Uses the `loop` that the URL configuration names, or the shared one."""

    def load_middleware(self, is_async: bool = False) -> None:
        """None: `ApiHandler` has none."""

    def get_response(self, request: HttpRequest) -> Any:
        loop: ServiceLoop = getattr(settings.ROOT_URLCONF, "loop", None) or shared_loop()
        return loop.run(ApiHandler().respond(request))


class RestClient(APIClient):
    def __init__(self, *, headers: dict[str, str] | None = None, raise_request_exception: bool = False) -> None:
        super().__init__(headers=headers)
        self.raise_request_exception = raise_request_exception
        self.handler = _LoopHandler(enforce_csrf_checks=False)


def async_limiter(client: "redis.Redis") -> AsyncRateLimiter:
    """A limiter for an event loop on the same Redis."""
    place = client.connection_pool.connection_kwargs
    return AsyncRateLimiter(connect_async(RedisOptions(url=f"redis://{place['host']}:{place['port']}/0")))


def user_limits(client: "redis.Redis", *limits: Limit) -> UserLimits:
    return UserLimits(FallbackRateLimiter(async_limiter(client)), limits)


def public_limits(client: "redis.Redis", *, burst: int, proxies: Sequence[str] = ()) -> PublicLimits:
    """For every address, loopback included."""
    return PublicLimits(
        FallbackRateLimiter(async_limiter(client)),
        Limit(PUBLIC, rate=0.001, burst=burst),
        address_of=ClientAddress(proxies),
        is_exempt=lambda _: False,
    )
