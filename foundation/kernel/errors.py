"""The base classes of all errors.

An error is a class with a stable `code`. Its base class tells the kind of error; each edge (REST, WebSocket) maps
kinds to statuses in one table, so an app can add an error without knowing any edge.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar


class ParleyError(Exception):
    """Any error that a caller can get. `detail` says what happened and, where possible, what to do next."""

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
    """The request cannot be parsed."""

    code = "invalid_request"
    title = "The request is malformed"


class Invalid(ParleyError):
    """A value in the request is not acceptable."""

    code = "invalid_request"
    title = "The request is not valid"


class Unauthenticated(ParleyError):
    """The request carries no valid credentials."""

    code = "authentication_required"
    title = "Authentication is required"


class Forbidden(ParleyError):
    """The caller is authenticated and may not do this."""

    code = "forbidden"
    title = "You may not do this"


class NotFound(ParleyError):
    """The resource does not exist, or the caller may not know that it does."""

    code = "not_found"
    title = "There is nothing here"


class MethodNotAllowed(ParleyError):
    """The path exists but does not offer this method."""

    code = "method_not_allowed"
    title = "This method is not allowed here"


class Conflict(ParleyError):
    """The request conflicts with the current state."""

    code = "conflict"
    title = "The request conflicts with the current state"


class TooLarge(ParleyError):
    """The request is larger than the server accepts."""

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
    """The caller has used up a rate limit, which refills with time."""

    code = "rate_limited"
    title = "Too many requests"


class Unavailable(ParleyError):
    """An engine cannot serve this now; the same request may succeed later."""

    code = "store_unavailable"
    title = "A store is unavailable, try again shortly"


class Overloaded(Unavailable):
    """More is waiting or under way than the process will hold, or it is shutting down. Nothing was stored."""

    code = "overloaded"
    title = "The server is overloaded, try again shortly"


def as_parley_error(error: BaseException) -> ParleyError:
    """The error itself, or an internal error that it caused: callers get its code, the log its traceback."""
    if isinstance(error, ParleyError):
        return error
    internal = ParleyError()
    internal.__cause__ = error
    return internal


def catalogue() -> Iterator[type[ParleyError]]:
    """Every error class defined so far, each code once, ordered by code."""
    by_code: dict[str, type[ParleyError]] = {}
    pending: list[type[ParleyError]] = [ParleyError]
    while pending:
        error = pending.pop(0)
        by_code.setdefault(error.code, error)
        pending.extend(error.__subclasses__())
    return iter([by_code[code] for code in sorted(by_code)])
