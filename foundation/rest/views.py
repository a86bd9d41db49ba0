"""Base classes of the REST views."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import SAFE_METHODS, AllowAny
from rest_framework.request import Request
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from foundation.kernel.caller import Caller
from foundation.rest.authentication import BearerAuthentication, Verify
from foundation.rest.throttling import READS, WRITES, UserLimits

T = TypeVar("T")


def given(kind: type[T]) -> T:
    """Declare a service that `as_view(...)` passes to the view."""
    return cast(T, None)


class ParleyView(APIView):
    """A view with an authenticated caller. Services are class attributes that `as_view(...)` sets."""

    verify: Verify | None = None
    limits: UserLimits | None = None

    def get_authenticators(self) -> Sequence[BaseAuthentication]:  # type: ignore[override]
        return [BearerAuthentication(self.verify)] if self.verify is not None else []

    def costs(self, request: Request) -> Mapping[str, int]:
        """What the request takes from the caller's limits."""
        return {READS if request.method in SAFE_METHODS else WRITES: 1}

    def check_throttles(self, request: Request) -> None:
        """Charge the caller, after authentication and before anything else. A body that cannot be read costs too."""
        if self.limits is None or not isinstance(request.user, Caller):
            return
        costs = ParleyView.costs(self, request)
        try:
            costs = self.costs(request)
        finally:
            self.limits.take(request.user.user_id, costs)

    @property
    def caller(self) -> Caller:
        return cast(Caller, self.request.user)

    def validated(self, serializer: type[Serializer[Any]]) -> Mapping[str, Any]:
        """Validate the request body. Raises DRF's `ValidationError`, which becomes a 422."""
        body = serializer(data=self.request.data)
        body.is_valid(raise_exception=True)
        return cast(Mapping[str, Any], body.validated_data)

    def validated_query(self, serializer: type[Serializer[Any]]) -> Mapping[str, Any]:
        """Validate the query string in the same way."""
        query = serializer(data=self.request.query_params.dict())
        query.is_valid(raise_exception=True)
        return cast(Mapping[str, Any], query.validated_data)


class PublicView(ParleyView):
    """A view that requires no token."""

    permission_classes: ClassVar[list[type[AllowAny]]] = [AllowAny]  # type: ignore[misc]
