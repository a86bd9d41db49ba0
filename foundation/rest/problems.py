"""Errors as `application/problem+json`: one table maps error classes to HTTP statuses."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions as drf

from foundation.kernel import errors

log = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"

STATUS: Mapping[type[errors.ParleyError], int] = {
    errors.Malformed: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.NotAcceptable: 406,
    errors.Conflict: 409,
    errors.TooLarge: 413,
    errors.UnsupportedBody: 415,
    errors.Invalid: 422,
    errors.RateLimited: 429,
    errors.Unavailable: 503,
}
_FROM_DRF: Mapping[type[Exception], type[errors.ParleyError]] = {
    drf.ParseError: errors.Malformed,
    SuspiciousOperation: errors.Malformed,
    drf.NotAuthenticated: errors.Unauthenticated,
    drf.AuthenticationFailed: errors.Unauthenticated,
    drf.PermissionDenied: errors.Forbidden,
    PermissionDenied: errors.Forbidden,
    drf.NotFound: errors.NotFound,
    Http404: errors.NotFound,
    drf.MethodNotAllowed: errors.MethodNotAllowed,
    drf.NotAcceptable: errors.NotAcceptable,
    drf.UnsupportedMediaType: errors.UnsupportedBody,
}


def status_of(error: errors.ParleyError | type[errors.ParleyError]) -> int:
    """The status of an error's class; 500 for a class that the table does not list."""
    kinds = (error if isinstance(error, type) else type(error)).__mro__
    return next((STATUS[kind] for kind in kinds if kind in STATUS), 500)


def problem(error: errors.ParleyError) -> HttpResponse:
    """The response for an error. The details of a 500 are logged, not sent."""
    status = status_of(error)
    body: dict[str, Any] = {
        "type": f"urn:parley:error:{error.code}",
        "title": error.title,
        "status": status,
        "code": error.code,
        "detail": error.detail if status != 500 else errors.ParleyError.title,
    }
    if error.fields:
        body["errors"] = {name: list(messages) for name, messages in error.fields.items()}
    response = HttpResponse(orjson.dumps(body), status=status, content_type=CONTENT_TYPE)
    response["Cache-Control"] = "no-store"
    if status in (429, 503):
        response["Retry-After"] = str(max(1, math.ceil(error.retry_after or 1)))
    if status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="parley"'
    return response


def handle(error: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """DRF's exception handler."""
    parley_error = _to_parley_error(error)
    if status_of(parley_error) == 500:
        log.error("unforeseen failure in %s", type(context.get("view")).__name__, exc_info=error)
    return problem(parley_error)


def _to_parley_error(error: Exception) -> errors.ParleyError:
    if isinstance(error, errors.ParleyError):
        return error
    if isinstance(error, drf.ValidationError):
        return errors.Invalid("Some fields are not acceptable", fields=_fields(error.detail))
    for kind in type(error).__mro__:
        if kind in _FROM_DRF:
            return _FROM_DRF[kind]()
    return errors.ParleyError()


def _fields(detail: Any, prefix: str = "") -> dict[str, Sequence[str]]:
    """Flatten DRF's nested details: `members.3` is the fourth element of the list `members`."""
    if isinstance(detail, dict):
        return {
            name: messages
            for key, value in detail.items()
            for name, messages in _fields(value, f"{prefix}.{key}" if prefix else str(key)).items()
        }
    if isinstance(detail, list) and any(isinstance(item, (dict, list)) for item in detail):
        return _fields({str(index): item for index, item in enumerate(detail) if item}, prefix)
    messages = detail if isinstance(detail, list) else [detail]
    return {prefix or "body": [str(message) for message in messages]}


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return problem(errors.Malformed())


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return problem(errors.Forbidden())


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return problem(errors.NotFound("No such path"))


def server_error(request: HttpRequest) -> HttpResponse:
    return problem(errors.ParleyError())
