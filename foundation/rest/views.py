"""Base classes of the REST views."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, TypeVar, cast

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import SAFE_METHODS, AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from foundation.kernel.caller import Caller
from foundation.rest.authentication import BearerAuthentication, Verify
from foundation.rest.json import JsonRenderer
from foundation.rest.threads import API_THREADS, run_in_thread
from foundation.rest.throttling import READS, WRITES, PublicLimits, UserLimits

T = TypeVar("T")

ANYTHING = "*/*"


def given(kind: type[T]) -> T:
    """Declare a service that `as_view(...)` passes to the view."""
    return cast(T, None)


class ParleyView(APIView):
    """A view with an authenticated caller. Services are class attributes that `as_view(...)` sets.

    Runs on the event loop, as do handlers that are coroutines. The other handlers run in a thread and may block.
    """

    view_is_async = True
    verify: Verify | None = None
    limits: UserLimits | None = None

    def get_authenticators(self) -> Sequence[BaseAuthentication]:  # type: ignore[override]
        return [BearerAuthentication(self.verify)] if self.verify is not None else []

    async def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override]
        """DRF's `dispatch`, with an authentication and limits that are awaited."""
        self.args, self.kwargs = args, kwargs
        self.request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            await self._admit(self.request)
            response = await self._handle(self.request, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - becomes a problem
            response = self.handle_exception(error)
        return self.finalize_response(self.request, response, *args, **kwargs)

    async def _admit(self, request: Request) -> None:
        """DRF's `initial`: content negotiation, then the caller, permission and limits."""
        self.format_kwarg = None
        request.accepted_renderer, request.accepted_media_type = self.perform_content_negotiation(request)
        for authenticator in request.authenticators or ():
            if isinstance(authenticator, BearerAuthentication):
                await authenticator.find_caller(request)
        self.check_permissions(request)
        await self._charge(request)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """DRF's, which parses `Accept`, except for those that nearly all clients send."""
        if request.META.get("HTTP_ACCEPT", ANYTHING) in (ANYTHING, JsonRenderer.media_type) and (
            self.settings.URL_FORMAT_OVERRIDE not in request.query_params
        ):
            return JsonRenderer(), JsonRenderer.media_type
        return super().perform_content_negotiation(request, force)

    async def _charge(self, request: Request) -> None:
        """Charge the caller, after authentication and before anything else. A body that cannot be read costs too."""
        if self.limits is None or not isinstance(request.user, Caller):
            return
        costs = ParleyView.costs(self, request)
        try:
            costs = self.costs(request)
        finally:
            await self.limits.take(request.user.user_id, costs)

    async def _handle(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        name = str(request.method).lower()
        handler = getattr(self, name, None) if name in self.http_method_names else None
        handler = handler or self.http_method_not_allowed
        if iscoroutinefunction(handler):
            response: Response = await handler(request, *args, **kwargs)
        else:
            response = await run_in_thread(API_THREADS, handler, request, *args, **kwargs)
        return response

    def costs(self, request: Request) -> Mapping[str, int]:
        """What the request takes from the caller's limits."""
        return {READS if request.method in SAFE_METHODS else WRITES: 1}

    @property
    def caller(self) -> Caller:
        return cast(Caller, self.request.user)

    def validated(self, serializer: type[Serializer[Any]]) -> Mapping[str, Any]:
        """Validate the request body. Raises DRF's `ValidationError`, which becomes a 422."""
        return _validate(serializer, self.request.data)

    def validated_query(self, serializer: type[Serializer[Any]], *, repeated: Sequence[str] = ()) -> Mapping[str, Any]:
        """Validate the query string in the same way. The parameters in `repeated` are lists."""
        parameters = self.request.query_params
        lists = {name: parameters.getlist(name) for name in repeated if name in parameters}
        return _validate(serializer, {**parameters.dict(), **lists})


class PublicView(ParleyView):
    """A view that requires no token. Its requests count for their address."""

    permission_classes: ClassVar[list[type[AllowAny]]] = [AllowAny]  # type: ignore[misc]
    public_limits: PublicLimits | None = None

    async def _charge(self, request: Request) -> None:
        if self.public_limits is not None:
            await self.public_limits.take_address(request)


def _validate(serializer: type[Serializer[Any]], data: Any) -> Mapping[str, Any]:
    """Validate with an instance that all requests share: making one copies every field."""
    if data is None:
        serializer(data=None).is_valid(raise_exception=True)
    return cast(Mapping[str, Any], _shared(serializer).run_validation(data))


@cache
def _shared(serializer: type[Serializer[Any]]) -> Serializer[Any]:
    return serializer()
