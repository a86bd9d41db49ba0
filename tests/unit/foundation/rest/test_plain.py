import pytest
from django.conf import settings
from django.test import Client
from django.urls import path

from foundation.rest.assets import AssetView
from foundation.rest.health import LiveView, MetricsView, ReadyView
from foundation.rest.pages import PageView
from foundation.rest.schema import SchemaView

urlpatterns = [
    path("", PageView.as_view(page=settings.WEB_CLIENT / "index.html")),
    path("healthz", LiveView.as_view()),
    path("readyz", ReadyView.as_view()),
    path("metrics", MetricsView.as_view()),
    path("static/<path:path>", AssetView.as_view()),
    path("api/schema", SchemaView.as_view()),
]


@pytest.mark.urls(__name__)
class TestMethods:
    @pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/metrics", "/static/parley.js", "/api/schema"])
    @pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
    def test_another_than_a_read_is_a_problem_that_names_what_is_allowed(self, path: str, method: str) -> None:
        answer = Client(enforce_csrf_checks=True).generic(method, path)
        assert (answer.status_code, answer["Content-Type"]) == (405, "application/problem+json")
        assert answer["Allow"] == "GET, HEAD, OPTIONS"
        assert answer.json()["code"] == "method_not_allowed"

    def test_a_read_is_answered(self) -> None:
        assert Client().get("/healthz").json() == {"status": "live"}
        assert Client().head("/healthz").status_code == 200
