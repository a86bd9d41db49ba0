"""What operators see, and the public does not."""

import json
from collections.abc import Callable

import pytest
from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from foundation.rest.health import EngineProbes, ReadyView
from foundation.rest.operators import OperatorAccess
from foundation.rest.schema import DocsView


def request(port: int) -> HttpRequest:
    return RequestFactory().get("/", SERVER_PORT=str(port))


class TestOperatorAccess:
    @pytest.mark.parametrize(
        ("access", "seen_on"),
        [
            (OperatorAccess(None, is_public=True), {8000, 9000}),
            (OperatorAccess(None, is_public=False), set()),
            (OperatorAccess(9000, is_public=True), {8000, 9000}),
            (OperatorAccess(9000, is_public=False), {9000}),
        ],
    )
    def test_a_port_of_their_own_hides_it_from_the_others(self, access: OperatorAccess, seen_on: set[int]) -> None:
        assert {port for port in (8000, 9000) if access.allows(request(port))} == seen_on

    def test_a_client_cannot_claim_the_port(self) -> None:
        access = OperatorAccess(9000, is_public=False)
        claims = {"HTTP_X_FORWARDED_PORT": "9000", "HTTP_HOST": "localhost:9000", "HTTP_SERVER_PORT": "9000"}
        assert not access.allows(RequestFactory().get("/", SERVER_PORT="8000", **claims))  # type: ignore[arg-type]

    def test_others_are_told_that_there_is_nothing(self) -> None:
        view = OperatorAccess(9000, is_public=False).only(lambda _: HttpResponse("inside"))
        assert view(request(9000)).status_code == 200
        assert view(request(8000)).status_code == 404

    def test_others_are_told_whether_the_process_is_ready_but_not_why(self) -> None:
        def refuses() -> None:
            raise OSError("no route to 10.1.2.3")

        access = OperatorAccess(9000, is_public=False)
        view = ReadyView.as_view(probes=EngineProbes({"redis": refuses}), shows_engines=access.allows)
        respond: Callable[[HttpRequest], HttpResponse] = async_to_sync(view)  # type: ignore[arg-type]
        public, inside = respond(request(8000)), respond(request(9000))
        assert public.status_code == inside.status_code == 503
        assert json.loads(public.content) == {"status": "not ready"}
        assert "10.1.2.3" in json.loads(inside.content)["engines"]["redis"]["error"]


class TestDocs:
    def test_its_policy_lets_nothing_in_from_elsewhere_and_nothing_inline(self) -> None:
        page = DocsView.as_view()(request(8000))
        assert isinstance(page, HttpResponse)
        policy = dict(part.split(" ", 1) for part in page["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert not any("unsafe" in value or "*" in value for value in policy.values())
        assert b"<style" not in page.content
        assert b"<script>" not in page.content
