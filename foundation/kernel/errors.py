"""Failures with a name.

A failure is a class with a stable `code`; its base class says what kind of failure it is. Each edge (REST, WebSocket)
maps *kinds* to its own language in one table, so an app adds a failure without knowing any edge.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar


class ParleyError(Exception):
    """Anything that Parley can tell a caller. `detail` says what happened and, where possible, what to do next."""

    code: ClassVar[str] = "internal_error"
    title: ClassVar[str] = "Something went wrong on our side"

    def __init__(
        self,
        detail: str = "",
        *,
        fields: Mapping[str, Sequence[str]] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.fields = dict(fields or {})
        self.retry_after = retry_after


class Malformed(ParleyError):
    """The request cannot be understood at all."""

    code = "invalid_request"
    title = "The request is malformed"


class Invalid(ParleyError):
    """The request was understood, and a value in it is not acceptable."""

    code = "invalid_request"
    title = "The request is not valid"


class Unauthenticated(ParleyError):
    """The caller has not shown who they are."""

    code = "authentication_required"
    title = "Authentication is required"


class Forbidden(ParleyError):
    """The caller is known and may not do this."""

    code = "forbidden"
    title = "You may not do this"


class NotFound(ParleyError):
    """There is no such thing, or the caller may not know that there is."""

    code = "not_found"
    title = "There is nothing here"


class MethodNotAllowed(ParleyError):
    """The path exists and does not answer this method."""

    code = "method_not_allowed"
    title = "This method is not allowed here"


class Conflict(ParleyError):
    """The request contradicts the present state."""

    code = "conflict"
    title = "The request conflicts with the present state"


class TooLarge(ParleyError):
    """The request is larger than the server reads."""

    code = "request_too_large"
    title = "The request is too large"


class UnsupportedBody(ParleyError):
    """The body is not JSON."""

    code = "unsupported_media_type"
    title = "The body must be application/json"


class NotAcceptable(ParleyError):
    """The caller accepts only representations that are not offered."""

    code = "not_acceptable"
    title = "Only application/json is offered here"


class RateLimited(ParleyError):
    """The caller has used up an allowance; it refills with time."""

    code = "rate_limited"
    title = "Too many requests"


class Unavailable(ParleyError):
    """Something Parley depends on cannot serve this now; the same request may succeed later."""

    code = "store_unavailable"
    title = "A store is unavailable, try again shortly"


def catalogue() -> Iterator[type[ParleyError]]:
    """Every failure class defined so far, each code once, ordered by code."""
    by_code: dict[str, type[ParleyError]] = {}
    pending: list[type[ParleyError]] = [ParleyError]
    while pending:
        error = pending.pop(0)
        by_code.setdefault(error.code, error)
        pending.extend(error.__subclasses__())
    return iter([by_code[code] for code in sorted(by_code)])
