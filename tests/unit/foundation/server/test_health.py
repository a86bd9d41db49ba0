"""The health endpoint of a process that serves nothing else."""

from collections.abc import Iterator

import httpx
import pytest

from foundation.rest.health import EngineProbes
from foundation.server.health import HealthServer
from foundation.stores.errors import StoreUnavailable


class FakeEvents:
    """A probe that fails while a partition waits."""

    def __init__(self) -> None:
        self.reason = ""

    def __call__(self) -> None:
        if self.reason:
            raise StoreUnavailable(self.reason)


@pytest.fixture
def events() -> FakeEvents:
    return FakeEvents()


@pytest.fixture
def url(events: FakeEvents) -> Iterator[str]:
    with HealthServer("127.0.0.1", 0, EngineProbes({"events": events})) as server:
        server.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_ready_while_events_are_processed(url: str) -> None:
    answer = httpx.get(f"{url}/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")
    assert answer.headers["Cache-Control"] == "no-store"


def test_not_ready_while_a_partition_waits_and_says_where(url: str, events: FakeEvents) -> None:
    events.reason = "messages.persisted[3] waits at 7"
    answer = httpx.get(f"{url}/readyz")
    assert answer.status_code == 503
    assert answer.json()["engines"]["events"] == {"ok": False, "error": events.reason}
    assert httpx.get(f"{url}/healthz").status_code == 200


def test_metrics_are_prometheus_and_other_paths_are_not_found(url: str) -> None:
    assert "parley_dynamodb_requests_total" in httpx.get(f"{url}/metrics").text
    assert httpx.get(f"{url}/").status_code == 404
    assert httpx.post(f"{url}/readyz").status_code == 501
