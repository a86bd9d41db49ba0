import json

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from django.views import View

from config.http.assets import AssetView
from config.http.health import LiveView, MetricsView, ReadyView
from config.http.pages import PageView
from config.http.schema import SchemaView


class TestMethods:
    @pytest.mark.parametrize("view", [LiveView, ReadyView, MetricsView, PageView, AssetView, SchemaView])
    @pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE"])
    def test_another_than_a_read_is_a_problem_that_names_what_is_allowed(self, view: type[View], method: str) -> None:
        answer = view.as_view()(RequestFactory().generic(method, "/"))
        assert isinstance(answer, HttpResponse)
        assert answer.status_code == 405
        assert answer["Content-Type"] == "application/problem+json"
        assert answer["Allow"] == "GET, HEAD, OPTIONS"
        assert json.loads(answer.content)["code"] == "method_not_allowed"
