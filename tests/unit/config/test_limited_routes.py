"""Every route with a caller has limits."""

from collections.abc import Iterator
from typing import Any

from django.urls import get_resolver

from config.wiring.web import web
from foundation.rest.routing import one_view_each
from foundation.rest.views import ParleyView, PublicView


def authenticated_views() -> Iterator[tuple[str, Any]]:
    for pattern in one_view_each(get_resolver("config.urls").url_patterns):
        view: Any = getattr(pattern, "callback", None)
        kind = getattr(view, "cls", object)
        if issubclass(kind, ParleyView) and not issubclass(kind, PublicView):
            yield str(pattern.pattern), view


def test_every_authenticated_route_has_the_limits_of_its_user() -> None:
    views = list(authenticated_views())
    assert len(views) >= 16
    assert [path for path, view in views if view.initkwargs.get("limits") is not web().user_limits] == []
