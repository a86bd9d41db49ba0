"""One path served by several views, one per HTTP method."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from asgiref.sync import markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver
from django.views import View

ViewFunction = Callable[..., HttpResponseBase]


class ByMethod:
    """Dispatches a request to the asynchronous view of its method: `ByMethod(get=list_view, post=create_view)`.

    HEAD goes to the view of GET. OPTIONS and all other methods go to the first view, which answers or refuses them as
    for a path of its own. Every response lists the methods of all views in `Allow`.
    """

    csrf_exempt = True

    def __init__(self, **views: Callable[..., Any]) -> None:
        markcoroutinefunction(self)
        self.views = views
        offered = {*views, "options", *(["head"] if "get" in views else [])}
        self._allow = ", ".join(name.upper() for name in View.http_method_names if name in offered)

    async def __call__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        method = (request.method or "").lower()
        view = self.views.get("get" if method == "head" else method) or next(iter(self.views.values()))
        response: HttpResponseBase = await view(request, *args, **kwargs)
        response["Allow"] = self._allow
        return response


def one_view_each(patterns: Iterable[URLPattern | URLResolver]) -> Iterator[URLPattern | URLResolver]:
    """Replace each `ByMethod` pattern by one pattern per view, for tools that expect a class behind each pattern."""
    for pattern in patterns:
        if isinstance(pattern, URLPattern) and isinstance(pattern.callback, ByMethod):
            yield from (
                URLPattern(pattern.pattern, view, pattern.default_args) for view in pattern.callback.views.values()
            )
        else:
            yield pattern
