"""Readiness: one entry per engine, 503 if one is down, and a response even if an engine hangs."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from asgiref.sync import async_to_sync, iscoroutinefunction
from django.http import HttpResponse
from django.test import RequestFactory
from django.views import View

from foundation.rest.handler import ApiHandler
from foundation.rest.health import EngineProbes, LiveView, MetricsView, ReadyView
from foundation.rest.threads import PAGE_THREADS
from foundation.stores.errors import StoreUnavailable
from tests.doubles import eventually


def get(view: type[View], **options: object) -> HttpResponse:
    respond = view.as_view(**options)
    call = async_to_sync(respond) if iscoroutinefunction(respond) else respond
    response = call(RequestFactory().get("/"))
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

        probes = EngineProbes({"redis": hangs, "dynamodb": answers}, timeout=1.0, fresh=0)
        first, second = probes.check(), probes.check()
        assert first["redis"] == second["redis"] == {"ok": False, "error": "no answer in time"}
        assert first["dynamodb"]["ok"]
        assert second["dynamodb"]["ok"]
        assert asked == [1]
        released.set()
        eventually(lambda: probes.check()["redis"]["ok"])

    def test_a_check_is_shared_while_it_runs_and_for_a_second(self) -> None:
        now, released, asked = [0.0], threading.Event(), []

        def waits() -> None:
            asked.append(1)
            released.wait(30)

        probes = EngineProbes({"redis": waits}, timeout=30, monotonic=lambda: now[0])
        with ThreadPoolExecutor(10) as pool:
            checks = [pool.submit(probes.check) for _ in range(10)]
            eventually(lambda: asked)
            released.set()
            assert [check.result()["redis"]["ok"] for check in checks] == [True] * 10
        probes.check()
        assert asked == [1]
        now[0] = 1.0
        probes.check()
        assert asked == [1, 1]

    def test_nobody_who_leaves_ends_the_check_of_the_others(self) -> None:
        released = threading.Event()
        probes = EngineProbes({"redis": lambda: waits(released)}, timeout=30)

        async def leave() -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(probes.check_on_loop(), 0.01)

        asyncio.run(leave())
        released.set()
        assert probes.check()["redis"]["ok"]


def waits(released: threading.Event) -> None:
    assert released.wait(30)


class TestLiveness:
    @pytest.mark.urls("tests.unit.foundation.rest.test_plain")
    async def test_it_waits_for_no_thread(self) -> None:
        released = threading.Event()
        for _ in range(20):
            PAGE_THREADS.submit(released.wait, 30)
        try:
            answer = await asyncio.wait_for(ApiHandler().respond(RequestFactory().get("/healthz")), 10)
            assert answer.status_code == 200
        finally:
            released.set()

    def test_the_process_lives(self) -> None:
        assert get(LiveView).status_code == 200

    def test_the_metrics_are_prometheus(self) -> None:
        assert b"parley_dynamodb_requests_total" in get(MetricsView).content
