"""`/healthz` (liveness), `/readyz` (readiness: all engines respond), `/metrics`."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from time import perf_counter
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from foundation.rest.plain import PlainView

log = logging.getLogger(__name__)

Probe = Callable[[], None]
PROBE_TIMEOUT_SECONDS = 1.5


class EngineProbes:
    """Probes all engines concurrently, with a timeout.

    An engine whose last probe is still running counts as failed and is not probed again, so that probes never pile up.
    """

    def __init__(self, probes: Mapping[str, Probe], *, timeout: float = PROBE_TIMEOUT_SECONDS) -> None:
        self._probes = dict(probes)
        self._timeout = timeout
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(self._probes)), thread_name_prefix="probe")
        self._futures: dict[str, Future[float]] = {}

    def check(self) -> dict[str, dict[str, Any]]:
        """One entry per engine: `{"ok", "latency_ms"}` or `{"ok": False, "error"}`."""
        hanging = {name for name, future in self._futures.items() if not future.done()}
        for name in self._probes.keys() - hanging:
            self._futures[name] = self._pool.submit(_timed, self._probes[name])
        futures = {name: self._futures[name] for name in self._probes}
        wait(futures.values(), timeout=self._timeout)
        return {name: _result(future) for name, future in futures.items()}


def _timed(probe: Probe) -> float:
    started = perf_counter()
    probe()
    return perf_counter() - started


def _result(future: "Future[float]") -> dict[str, Any]:
    if not future.done():
        return {"ok": False, "error": "no answer in time"}
    if (error := future.exception()) is not None:
        log.warning("an engine is not ready: %s", error)
        return {"ok": False, "error": str(error)}
    return {"ok": True, "latency_ms": round(future.result() * 1000, 2)}


class LiveView(PlainView):
    def get(self, request: HttpRequest) -> HttpResponse:
        return JsonResponse({"status": "live"})


class ReadyView(PlainView):
    """Tells everybody whether the process is ready, and those whom `shows_engines` allows the state of each engine."""

    probes: EngineProbes | None = None
    shows_engines: Callable[[HttpRequest], bool] = staticmethod(lambda _: True)

    def get(self, request: HttpRequest) -> HttpResponse:
        engines = self.probes.check() if self.probes else {}
        ready = all(engine["ok"] for engine in engines.values())
        body: dict[str, Any] = {"status": "ready" if ready else "not ready"}
        if self.shows_engines(request):
            body["engines"] = engines
        response = JsonResponse(body, status=200 if ready else 503)
        if not ready:
            response["Retry-After"] = "1"
        return response


class MetricsView(PlainView):
    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(generate_latest(), content_type=CONTENT_TYPE_LATEST)
