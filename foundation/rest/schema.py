"""`/api/schema` (the OpenAPI document of all apps) and `/api/docs` (Swagger UI, no external files, no inline code)."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, get_resolver, get_urlconf
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator

from foundation.kernel import errors
from foundation.rest.documentation import BODY_FAILURES
from foundation.rest.pages import DIRECTIVES, policy
from foundation.rest.plain import PlainView
from foundation.rest.problems import CONTENT_TYPE, status_of
from foundation.rest.routing import one_view_each

_ALWAYS = (errors.NotAcceptable, errors.Unavailable)
_WITH_CALLER = (errors.Unauthenticated, errors.Forbidden, errors.RateLimited)
_WITH_QUERY = (errors.Malformed, errors.Invalid)

SWAGGER_UI = "/static/drf_spectacular_sidecar/swagger-ui-dist"
PAGE = f"""<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Parley API</title>
    <link rel="icon" href="{SWAGGER_UI}/favicon-32x32.png">
    <link rel="stylesheet" href="{SWAGGER_UI}/swagger-ui.css">
  </head>
  <body>
    <p><a href="/api/asyncapi">The WebSocket, as an AsyncAPI document</a></p>
    <div id="swagger-ui"></div>
    <script src="{SWAGGER_UI}/swagger-ui-bundle.js"></script>
    <script src="/api/docs?script"></script>
  </body>
</html>
"""
SCRIPT = 'SwaggerUIBundle({ url: "/api/schema", dom_id: "#swagger-ui", deepLinking: true });\n'
# Swagger UI's style sheet has its pictures in data URLs.
POLICY = policy(
    {
        **{name: value for name, value in DIRECTIVES.items() if "trusted-types" not in name},
        "img-src": "'self' data:",
    }
)


class BearerScheme(OpenApiAuthenticationExtension):
    """Documents the bearer authentication."""

    target_class = "foundation.rest.authentication.BearerAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "The `access_token` of `POST /api/auth/verify` or `POST /api/auth/refresh`.",
        }


def complete(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Postprocessing hook: add the errors that every operation can return, and the table of error codes."""
    for operations in result.get("paths", {}).values():
        for operation in operations.values():
            _add_shared_failures(operation)
    result["info"]["description"] = f"{result['info'].get('description', '')}\n\n{code_table()}"
    return result


def code_table() -> str:
    """All error codes, as a Markdown table."""
    rows = [
        f"| `{error.code}` | {status_of(error)} | {' '.join((error.__doc__ or error.title).split())} |"
        for error in errors.catalogue()
    ]
    return "\n".join(
        [
            "## Errors",
            "Errors are `application/problem+json`. `code` is stable. 429 and 503 have a `Retry-After` header.",
            "`invalid_request` is 400 if the request cannot be parsed, and 422 if a field is invalid.",
            "",
            "| Code | Status | When |",
            "| --- | --- | --- |",
            *rows,
        ]
    )


def _add_shared_failures(operation: dict[str, Any]) -> None:
    shared = [*_ALWAYS]
    if any(operation.get("security", [])):
        shared += _WITH_CALLER
    if "requestBody" in operation:
        shared += BODY_FAILURES
    if any(parameter["in"] == "query" for parameter in operation.get("parameters", [])):
        shared += _WITH_QUERY
    for error in shared:
        operation["responses"].setdefault(str(status_of(error)), _response(error))
    operation["responses"] = dict(sorted(operation["responses"].items()))


def _response(error: type[errors.ParleyError]) -> dict[str, Any]:
    return {
        "description": f"{error.title}. Code: `{error.code}`",
        "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


def generate(patterns: Iterable[URLPattern | URLResolver]) -> dict[str, Any]:
    """Generate the OpenAPI document of these routes."""
    schema: dict[str, Any] = SchemaGenerator(patterns=list(one_view_each(patterns))).get_schema(public=True)
    return schema


@cache
def document(urlconf: str) -> bytes:
    """The OpenAPI document of a URL configuration, as JSON. Generated once, because routes do not change."""
    return orjson.dumps(generate(get_resolver(urlconf).url_patterns))


class SchemaView(PlainView):
    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(document(get_urlconf() or settings.ROOT_URLCONF), content_type="application/json")


class DocumentView(PlainView):
    """Serves a document that was made at start-up: `body` is its JSON."""

    body = b""

    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(self.body, content_type="application/json")


class DocsView(PlainView):
    """Swagger UI, with scripts and styles from `/static/`, and the script that starts it from `/api/docs?script`."""

    http_method_names = ["get", "head"]

    def get(self, request: HttpRequest) -> HttpResponse:
        if "script" in request.GET:
            return HttpResponse(SCRIPT, content_type="text/javascript")
        response = HttpResponse(PAGE)
        response["Content-Security-Policy"] = POLICY
        response["Referrer-Policy"] = "no-referrer"
        return response
