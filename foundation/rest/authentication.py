"""Authentication by bearer token. Views require it unless they opt out."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from foundation.kernel.caller import Caller
from foundation.kernel.errors import Unauthenticated

if TYPE_CHECKING:  # rest_framework.views imports this module through the settings
    from rest_framework.views import APIView

Verify = Callable[[str], Caller]


def bearer_token(header: str) -> str | None:
    """The token of an `Authorization` header, or None if the header is of another form."""
    scheme, _, token = header.partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


class BearerAuthentication(BaseAuthentication):
    """Reads `Authorization: Bearer <access token>`. `verify` raises for an invalid token."""

    def __init__(self, verify: Verify) -> None:
        self._verify = verify

    def authenticate(self, request: Request | HttpRequest) -> tuple[Caller, str] | None:
        header = request.META.get("HTTP_AUTHORIZATION", "")
        if not header:
            return None
        token = bearer_token(header)
        if token is None:
            raise Unauthenticated("Send `Authorization: Bearer <access token>`")
        return self._verify(token), token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="parley"'


class CallerIsKnown(BasePermission):
    """Requires an authenticated caller. The default of all views."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        return isinstance(request.user, Caller)
