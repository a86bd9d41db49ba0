"""What operators' machines ask a process.

`/healthz`: it lives. `/readyz`: all engines respond. `/readyz/gateway`: it takes connections. That one is for load
balancers: while an engine is away, sockets stay and most requests work, so that no process is to be replaced.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock
from time import monotonic, perf_counter
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from foundation.rest.plain import PlainView

log = logging.getLogger(__name__)

PATHS = ("/healthz", "/readyz", "/readyz/gateway", "/metrics")
Probe = Callable[[], None]
Engines = dict[str, dict[str, Any]]
PROBE_TIMEOUT_SECONDS = 1.5
FRESH_SECONDS = 1.0


class EngineProbes:
    """Probes all engines concurrently, with a timeout.

    All checks share the one that is running, and its result for as long as it is fresh, so that anybody may ask at any
    rate. An engine whose last probe is still running counts as failed and is not probed again.
    """

    def __init__(
        self,
        probes: Mapping[str, Probe],
        *,
        timeout: float = PROBE_TIMEOUT_SECONDS,
        fresh: float = FRESH_SECONDS,
        monotonic: Callable[[], float] = monotonic,
    ) -> None:
        self._probes = dict(probes)
        self._timeout = timeout
        self._fresh = fresh
        self._monotonic = monotonic
        # One thread waits for the others.
        self._pool = ThreadPoolExecutor(max_workers=1 + len(self._probes), thread_name_prefix="probe")
        self._futures: dict[str, Future[float]] = {}
        self._lock = Lock()
        self._check: Future[Engines] | None = None
        self._checked_at = 0.0

    def check(self) -> Engines:
        """One entry per engine: `{"ok", "latency_ms"}` or `{"ok": False, "error"}`."""
        return self._current().result()

    async def check_on_loop(self) -> Engines:
        """The same without a thread that waits. A caller that leaves ends nobody else's check."""
        return await asyncio.shield(asyncio.wrap_future(self._current()))

    def _current(self) -> "Future[Engines]":
        """The running check, one whose result is fresh, or a new one."""
        with self._lock:
            check = self._check
            if check is None or (check.done() and self._monotonic() - self._checked_at >= self._fresh):
                check = self._check = self._pool.submit(self._probe)
            return check

    def _probe(self) -> Engines:
        hanging = {name for name, future in self._futures.items() if not future.done()}
        for name in self._probes.keys() - hanging:
            self._futures[name] = self._pool.submit(_timed, self._probes[name])
        futures = {name: self._futures[name] for name in self._probes}
        wait(futures.values(), timeout=self._timeout)
        self._checked_at = self._monotonic()
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
    """Answers on the event loop: it waits behind nothing."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        return JsonResponse({"status": "live"})


class ReadyView(PlainView):
    """Tells everybody whether the process is ready, and those whom `shows_engines` allows the state of each engine."""

    probes: EngineProbes | None = None
    shows_engines: Callable[[HttpRequest], bool] = staticmethod(lambda _: True)

    async def get(self, request: HttpRequest) -> HttpResponse:
        engines = await self.probes.check_on_loop() if self.probes else {}
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
