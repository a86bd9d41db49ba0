"""The web client's page and files, as a browser gets them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.http import Http404, HttpResponse
from django.test import RequestFactory

from foundation.rest.assets import AssetView
from foundation.rest.pages import PageView
from tests.unit.config.test_settings import GOOD

PAGE = settings.WEB_CLIENT / "index.html"


def get(*, embedded: bool) -> HttpResponse:
    response = PageView.as_view(page=PAGE, embedded=embedded)(RequestFactory().get("/"))
    assert isinstance(response, HttpResponse)
    return response


class TestPage:
    def test_it_knows_whether_it_is_on_a_laptop(self) -> None:
        assert b'data-mode="embedded"' in get(embedded=True).content
        assert b'data-mode="production"' in get(embedded=False).content

    def test_its_policy_lets_nothing_in_from_elsewhere_and_nothing_inline(self) -> None:
        policy = dict(part.split(" ", 1) for part in get(embedded=False)["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert not any("unsafe" in value or "*" in value for value in policy.values())

    def test_it_has_nothing_inline_that_the_policy_would_refuse(self) -> None:
        text = PAGE.read_text()
        assert "style=" not in text
        assert "<style" not in text
        assert " on" not in "".join(part.split(">")[0] for part in text.split("<") if part.startswith("body"))
        assert all('src="' in part.split(">")[0] for part in text.split("<script")[1:])

    def test_every_file_it_names_is_served(self) -> None:
        names = [part.split('"')[0] for part in PAGE.read_text().split('"/static/')[1:]]
        assert len(names) > 10
        for name in names:
            response = AssetView.as_view()(RequestFactory().get(f"/static/{name}"), path=name)
            assert response.status_code == 200
            assert response["Cache-Control"] == "public, no-cache"

    @pytest.mark.parametrize("path", ["parley/../../manage.py", "parley/app", "parley/nothing.js"])
    def test_nothing_else_is(self, path: str) -> None:
        with pytest.raises(Http404):
            AssetView.as_view()(RequestFactory().get("/static/"), path=path)


class TestDemoInProduction:
    def test_no_path_leads_to_it_and_it_cannot_be_made(self, tmp_path: Path) -> None:
        script = """
import django
django.setup()
from django.core.exceptions import ImproperlyConfigured
from django.urls import Resolver404, resolve
from config.wiring.demo import demo_of
from config.wiring.web import web
assert resolve("/").func.view_initkwargs["embedded"] is False
for path in ("/api/demo/login", "/api/demo/people"):
    try:
        resolve(path)
    except Resolver404:
        continue
    raise SystemExit(f"{path} is routed")
try:
    demo_of(web())
except ImproperlyConfigured as error:
    print(error)
"""
        environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), **GOOD}
        result = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert result.stdout.strip() == "The demo exists in embedded mode only", result.stderr
