"""What only operators may see: metrics, the state of each engine, the OpenAPI document."""

from functools import wraps
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from foundation.kernel.errors import NotFound
from foundation.rest.problems import problem
from foundation.rest.routing import ViewFunction


class OperatorAccess:
    """Recognizes operators by the port that they connect to, which the network protects; or by none, if `is_public`."""

    def __init__(self, port: int | None, *, is_public: bool) -> None:
        self._port = port
        self._is_public = is_public

    def allows(self, request: HttpRequest) -> bool:
        return self._is_public or (self._port is not None and request.META.get("SERVER_PORT") == str(self._port))

    def only(self, view: ViewFunction) -> ViewFunction:
        """The view for operators; a 404 for everybody else."""

        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not self.allows(request):
                return problem(NotFound("No such path"))
            return view(request, *args, **kwargs)

        return guarded
