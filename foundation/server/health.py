"""The health endpoint of a process that serves nothing else: `/healthz`, `/readyz` and `/metrics`, on a thread."""

import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from foundation.rest.health import EngineProbes

REQUEST_TIMEOUT_SECONDS = 5.0
JSON = "application/json"


class HealthServer(ThreadingHTTPServer):
    """Serves until the process ends. Ready means that every probe succeeds."""

    daemon_threads = True

    def __init__(self, host: str, port: int, probes: EngineProbes) -> None:
        super().__init__((host, port), _Handler)
        self.probes = probes

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, name="health", daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    server: HealthServer
    timeout = REQUEST_TIMEOUT_SECONDS

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/healthz":
                self._answer(HTTPStatus.OK, JSON, orjson.dumps({"status": "live"}))
            case "/readyz":
                engines = self.server.probes.check()
                ready = all(engine["ok"] for engine in engines.values())
                body = {"status": "ready" if ready else "not ready", "engines": engines}
                status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, JSON, orjson.dumps(body))
            case "/metrics":
                self._answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest())
            case _:
                self._answer(HTTPStatus.NOT_FOUND, JSON, orjson.dumps({"status": "no such path"}))

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests of probes are not logged."""
