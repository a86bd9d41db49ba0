"""Every route has limits: of its user, or of the address."""

from collections.abc import Iterator
from typing import Any

from django.urls import get_resolver

from config.wiring.web import web
from foundation.rest.routing import one_view_each
from foundation.rest.views import ParleyView, PublicView


def api_views() -> Iterator[tuple[str, Any]]:
    for pattern in one_view_each(get_resolver("config.urls").url_patterns):
        view: Any = getattr(pattern, "callback", None)
        if issubclass(getattr(view, "cls", object), ParleyView):
            yield str(pattern.pattern), view


def test_every_authenticated_route_has_the_limits_of_its_user() -> None:
    views = [(path, view) for path, view in api_views() if not issubclass(view.cls, PublicView)]
    assert len(views) >= 16
    assert [path for path, view in views if view.initkwargs.get("limits") is not web().user_limits] == []


def test_every_public_route_has_the_limits_of_its_address() -> None:
    views = [(path, view) for path, view in api_views() if issubclass(view.cls, PublicView)]
    assert len(views) >= 3
    assert [path for path, view in views if view.initkwargs.get("public_limits") is not web().public_limits] == []
