"""`ByMethod`: one path, a view per method."""

import json
from typing import Any

import pytest
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.test import RequestFactory
from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.rest.routing import ByMethod
from foundation.rest.schema import generate
from foundation.rest.views import PublicView


class ListView(PublicView):
    @extend_schema(operation_id="list", request=None, responses={204: None})
    def get(self, request: Request, **path: str) -> Response:
        return Response({"view": "list", **path})


class CreateView(PublicView):
    @extend_schema(operation_id="create", request=None, responses={204: None})
    async def post(self, request: Request, **path: str) -> Response:
        return Response({"view": "create", **path}, status=201)


VIEW = ByMethod(get=ListView.as_view(), post=CreateView.as_view())


async def call(method: str, **path: str) -> Any:
    response: HttpResponseBase = await VIEW(RequestFactory().generic(method, "/things"), **path)
    return response.render() if isinstance(response, Response) else response


class TestDispatch:
    @pytest.mark.parametrize(("method", "view", "status"), [("GET", "list", 200), ("POST", "create", 201)])
    async def test_each_method_reaches_its_view_with_the_arguments_of_the_path(
        self, method: str, view: str, status: int
    ) -> None:
        response = await call(method, thing_id="7")
        assert (response.status_code, json.loads(response.content)) == (status, {"view": view, "thing_id": "7"})

    async def test_head_reaches_the_view_of_get(self) -> None:
        assert (await call("HEAD")).status_code == 200

    @pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE"])
    async def test_another_method_is_a_problem(self, method: str) -> None:
        response = await call(method)
        assert isinstance(response, HttpResponse)
        assert (response.status_code, response["Content-Type"]) == (405, "application/problem+json")
        assert json.loads(response.content)["code"] == "method_not_allowed"

    @pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE"])
    async def test_every_response_names_the_methods_of_all_views(self, method: str) -> None:
        assert (await call(method))["Allow"] == "GET, POST, HEAD, OPTIONS"

    async def test_without_get_there_is_no_head(self) -> None:
        view = ByMethod(post=CreateView.as_view())
        assert (await view(RequestFactory().head("/things"))).status_code == 405
        assert (await view(RequestFactory().options("/things")))["Allow"] == "POST, OPTIONS"


def test_the_openapi_document_has_one_operation_per_method() -> None:
    operations = generate([path("things", VIEW)])["paths"]["/things"]
    assert {method: operation["operationId"] for method, operation in operations.items()} == {
        "get": "list",
        "post": "create",
    }
