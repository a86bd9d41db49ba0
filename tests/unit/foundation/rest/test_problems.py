"""Failures over HTTP: the body of the contract, the right status, never a trace."""

import json
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, TooManyFieldsSent
from django.http import Http404
from django.test import Client, override_settings
from django.urls import path
from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.kernel import errors
from foundation.rest.problems import handle, problem
from foundation.rest.serializers import PageQuery, StrictSerializer, TextField
from foundation.rest.views import ParleyView, PublicView
from foundation.stores.errors import EventLogUnavailable, StoreUnavailable
from tests.doubles import verify_user_id


class NoteBody(StrictSerializer):
    text = TextField(max_length=5)


class EchoView(PublicView):
    def post(self, request: Request) -> Response:
        return Response(dict(self.validated(NoteBody)))

    def get(self, request: Request) -> Response:
        return Response(dict(self.validated_query(PageQuery)))


class PrivateView(ParleyView):
    def get(self, request: Request) -> Response:
        return Response({"user_id": self.caller.user_id})


class BrokenView(PublicView):
    def get(self, request: Request) -> Response:
        raise RuntimeError("a secret in a trace")


urlpatterns = [
    path("echo", EchoView.as_view()),
    path("private", PrivateView.as_view(verify=verify_user_id)),
    path("broken", BrokenView.as_view()),
]
handler404 = "foundation.rest.problems.not_found"
handler500 = "foundation.rest.problems.server_error"


@pytest.fixture
def client() -> Any:
    with override_settings(ROOT_URLCONF=__name__):
        yield Client(raise_request_exception=False)


def problem_body(response: Any) -> dict[str, Any]:
    assert response["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = json.loads(response.content)
    assert body["status"] == response.status_code
    assert {"type", "title", "status", "code", "detail"} <= body.keys()
    return body


class TestTable:
    @pytest.mark.parametrize(
        ("error", "status", "code"),
        [
            (drf.ParseError(), 400, "invalid_request"),
            (TooManyFieldsSent(), 400, "invalid_request"),
            (drf.NotAuthenticated(), 401, "authentication_required"),
            (PermissionDenied(), 403, "forbidden"),
            (Http404(), 404, "not_found"),
            (drf.MethodNotAllowed("PUT"), 405, "method_not_allowed"),
            (drf.NotAcceptable(), 406, "not_acceptable"),
            (errors.Conflict(), 409, "conflict"),
            (errors.TooLarge(), 413, "request_too_large"),
            (drf.UnsupportedMediaType("text/plain"), 415, "unsupported_media_type"),
            (errors.Invalid(), 422, "invalid_request"),
            (errors.RateLimited(retry_after=2.2), 429, "rate_limited"),
            (StoreUnavailable(), 503, "store_unavailable"),
            (EventLogUnavailable(), 503, "fanout_unavailable"),
            (ValueError("private"), 500, "internal_error"),
        ],
    )
    def test_each_kind_of_failure_has_its_status(self, error: Exception, status: int, code: str) -> None:
        response = handle(error, {})
        assert (response.status_code, problem_body(response)["code"]) == (status, code)

    def test_what_may_be_retried_says_when(self) -> None:
        assert problem(errors.RateLimited(retry_after=2.2))["Retry-After"] == "3"
        assert problem(StoreUnavailable())["Retry-After"] == "1"

    def test_nested_field_errors_are_told_by_their_path(self) -> None:
        detail: Any = {"members": {3: ["Not a user id."]}, "name": ["Too long."], "tags": [{}, {"a": ["Bad."]}]}
        body = problem_body(handle(drf.ValidationError(detail), {}))
        assert body["errors"] == {"members.3": ["Not a user id."], "name": ["Too long."], "tags.1.a": ["Bad."]}


class TestRequests:
    def post(self, client: Client, body: bytes, content_type: str = "application/json") -> dict[str, Any]:
        return problem_body(client.post("/echo", data=body, content_type=content_type))

    def test_a_good_body_passes(self, client: Client) -> None:
        response = client.post("/echo", data=b'{"text": "hi"}', content_type="application/json")
        assert (response.status_code, response.json()) == (200, {"text": "hi"})

    @pytest.mark.parametrize("body", [b"{", b'{"text": NaN}', b'"\\ud800"', b"\xff", b"[" * 5000])
    def test_malformed_json_is_400(self, client: Client, body: bytes) -> None:
        assert self.post(client, body)["status"] == 400

    @pytest.mark.parametrize("body", [b"[]", b'"text"', b"null", b"{}", b'{"text": 5}', b'{"text": "longer"}'])
    def test_a_body_of_the_wrong_shape_is_422(self, client: Client, body: bytes) -> None:
        problem_body = self.post(client, body)
        assert problem_body["status"] == 422
        assert problem_body["errors"]

    def test_an_unknown_field_is_422_and_named(self, client: Client) -> None:
        assert self.post(client, b'{"text": "hi", "txet": 1}')["errors"] == {"txet": ["Unknown field."]}

    def test_a_body_of_a_megabyte_is_413(self, client: Client) -> None:
        assert self.post(client, b'{"text": "' + b"x" * 1_000_000 + b'"}')["status"] == 413

    def test_another_content_type_is_415(self, client: Client) -> None:
        assert self.post(client, b"text=hi", "application/x-www-form-urlencoded")["status"] == 415

    @pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "cursr=a"])
    def test_a_query_out_of_range_is_422(self, client: Client, query: str) -> None:
        assert problem_body(client.get(f"/echo?{query}"))["status"] == 422

    def test_an_unknown_path_is_404(self, client: Client) -> None:
        assert problem_body(client.get("/nowhere"))["code"] == "not_found"

    def test_a_bug_tells_nothing(self, client: Client) -> None:
        response = client.get("/broken")
        assert problem_body(response)["status"] == 500
        assert b"secret" not in response.content


class TestCallers:
    USER = "user_01HQX000000000000000000000"

    def test_a_known_caller_passes(self, client: Client) -> None:
        response = client.get("/private", headers={"Authorization": f"Bearer {self.USER}"})
        assert response.json() == {"user_id": self.USER}

    @pytest.mark.parametrize("header", [None, "Basic abc", "Bearer", "Bearer nonsense"])
    def test_another_header_is_401_with_a_challenge(self, client: Client, header: str | None) -> None:
        response = client.get("/private", headers={"Authorization": header} if header else {})
        assert problem_body(response)["code"] == "authentication_required"
        assert response.status_code == 401
        assert response["WWW-Authenticate"].startswith("Bearer")
