"""Building blocks of the OpenAPI document: error responses and strict request bodies."""

from collections import defaultdict
from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.utils import OpenApiExample, OpenApiResponse
from rest_framework import serializers

from foundation.kernel import errors
from foundation.rest.problems import CONTENT_TYPE, status_of


class ProblemSerializer(serializers.Serializer[object]):
    """An error. `code` is stable. `errors` maps each invalid field to its messages."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField()
    detail = serializers.CharField()
    errors = serializers.DictField(  # type: ignore[assignment]
        child=serializers.ListField(child=serializers.CharField()), required=False
    )


class StrictBodies(OpenApiSerializerExtension):
    """Documents that a strict body allows no additional properties."""

    target_class = "foundation.rest.serializers.StrictSerializer"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        schema: dict[str, Any] = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        return {**schema, "additionalProperties": False}


BODY_FAILURES = (errors.Malformed, errors.Invalid, errors.TooLarge, errors.UnsupportedBody)
"""The errors that any JSON body can cause."""


def problems(*failures: type[errors.ParleyError], public: bool = False) -> dict[tuple[int, str], OpenApiResponse]:
    """The responses of these errors and of those of every view. `public` views require no token."""
    always = (errors.Unavailable,) if public else (errors.Unauthenticated, errors.Unavailable)
    by_status: dict[int, list[type[errors.ParleyError]]] = defaultdict(list)
    for failure in dict.fromkeys((*failures, *always)):
        by_status[status_of(failure)].append(failure)
    return {(status, CONTENT_TYPE): _response(status, by_status[status]) for status in sorted(by_status)}


def _response(status: int, failures: list[type[errors.ParleyError]]) -> OpenApiResponse:
    codes = ", ".join(f"`{code}`" for code in dict.fromkeys(failure.code for failure in failures))
    return OpenApiResponse(
        ProblemSerializer,
        description=f"{failures[0].title}. Code: {codes}" if len(failures) == 1 else f"Codes: {codes}",
        examples=[_example(status, failure) for failure in failures],
    )


def _example(status: int, failure: type[errors.ParleyError]) -> OpenApiExample:
    value = {
        "type": f"urn:parley:error:{failure.code}",
        "title": failure.title,
        "status": status,
        "code": failure.code,
        "detail": failure.title,
    }
    return OpenApiExample(failure.__name__, value=value, media_type=CONTENT_TYPE, response_only=True)
