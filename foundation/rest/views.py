"""What Parley's REST views share."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import AllowAny
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from foundation.kernel.caller import Caller
from foundation.rest.authentication import BearerAuthentication, Verify

T = TypeVar("T")


def given(kind: type[T]) -> T:
    """Declares a service that a view is given by `as_view(...)`; no view is reachable without it."""
    return cast(T, None)


class ParleyView(APIView):
    """Knows its caller. Services are class attributes given by `as_view(...)`, so `config.wiring` decides them."""

    verify: Verify | None = None

    def get_authenticators(self) -> Sequence[BaseAuthentication]:  # type: ignore[override]
        return [BearerAuthentication(self.verify)] if self.verify is not None else []

    @property
    def caller(self) -> Caller:
        return cast(Caller, self.request.user)

    def validated(self, serializer: type[Serializer[Any]]) -> Mapping[str, Any]:
        """The request's body, checked. Raises DRF's ValidationError, which the edge tells as 422."""
        checked = serializer(data=self.request.data)
        checked.is_valid(raise_exception=True)
        return cast(Mapping[str, Any], checked.validated_data)

    def validated_query(self, serializer: type[Serializer[Any]]) -> Mapping[str, Any]:
        """The query string, checked in the same way."""
        checked = serializer(data=self.request.query_params.dict())
        checked.is_valid(raise_exception=True)
        return cast(Mapping[str, Any], checked.validated_data)


class PublicView(ParleyView):
    """For those who have no token yet."""

    permission_classes: ClassVar[list[type[AllowAny]]] = [AllowAny]  # type: ignore[misc]
