"""Authentication by bearer token. Views require it unless they opt out."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from foundation.kernel.caller import Caller
from foundation.kernel.errors import Unauthenticated

if TYPE_CHECKING:  # rest_framework.views imports this module through the settings
    from rest_framework.views import APIView

Verify = Callable[[str], Awaitable[Caller]]


def bearer_token(header: str) -> str | None:
    """The token of an `Authorization` header, or None if the header is of another form."""
    scheme, _, token = header.partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


class BearerAuthentication(BaseAuthentication):
    """Reads `Authorization: Bearer <access token>`.

    `verify` may read a store, so it is awaited by `find_caller`, before DRF asks `authenticate`.
    """

    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self._found: tuple[Caller, str] | None = None

    async def find_caller(self, request: Request | HttpRequest) -> None:
        """Raises `Unauthenticated` for an invalid token."""
        header = request.META.get("HTTP_AUTHORIZATION", "")
        if not header:
            return
        token = bearer_token(header)
        if token is None:
            raise Unauthenticated("Send `Authorization: Bearer <access token>`")
        self._found = await self._verify(token), token

    def authenticate(self, request: Request) -> tuple[Caller, str] | None:
        return self._found

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="parley"'


class CallerIsKnown(BasePermission):
    """Requires an authenticated caller. The default of all views."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        return isinstance(request.user, Caller)
