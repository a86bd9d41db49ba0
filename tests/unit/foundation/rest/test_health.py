"""Readiness: one entry per engine, 503 if one is down, and a response even if an engine hangs."""

import json
import threading

from django.http import HttpResponse
from django.test import RequestFactory
from django.views import View

from foundation.rest.health import EngineProbes, LiveView, MetricsView, ReadyView
from foundation.stores.errors import StoreUnavailable
from tests.doubles import eventually


def get(view: type[View], **options: object) -> HttpResponse:
    response = view.as_view(**options)(RequestFactory().get("/"))
    assert isinstance(response, HttpResponse)
    return response


def answers() -> None:
    """A probe that succeeds."""


def refuses() -> None:
    raise StoreUnavailable("no broker answers")


class TestReadiness:
    def test_all_engines_answer(self) -> None:
        response = get(ReadyView, probes=EngineProbes({"dynamodb": answers, "redis": answers}))
        body = json.loads(response.content)
        assert response.status_code == 200
        assert {name: engine["ok"] for name, engine in body["engines"].items()} == {"dynamodb": True, "redis": True}
        assert all(engine["latency_ms"] >= 0 for engine in body["engines"].values())

    def test_one_engine_down_is_503_and_says_which(self) -> None:
        response = get(ReadyView, probes=EngineProbes({"dynamodb": answers, "kafka": refuses}))
        engines = json.loads(response.content)["engines"]
        assert response.status_code == 503
        assert response["Retry-After"] == "1"
        assert engines["dynamodb"]["ok"]
        assert engines["kafka"] == {"ok": False, "error": "no broker answers"}

    def test_a_hanging_engine_does_not_block_the_response_and_is_probed_once(self) -> None:
        released, asked = threading.Event(), []

        def hangs() -> None:
            asked.append(1)
            released.wait(30)

        probes = EngineProbes({"redis": hangs, "dynamodb": answers}, timeout=1.0)
        first, second = probes.check(), probes.check()
        assert first["redis"] == second["redis"] == {"ok": False, "error": "no answer in time"}
        assert first["dynamodb"]["ok"]
        assert second["dynamodb"]["ok"]
        assert asked == [1]
        released.set()
        eventually(lambda: probes.check()["redis"]["ok"])


class TestLiveness:
    def test_the_process_lives(self) -> None:
        assert get(LiveView).status_code == 200

    def test_the_metrics_are_prometheus(self) -> None:
        assert b"parley_dynamodb_requests_total" in get(MetricsView).content
