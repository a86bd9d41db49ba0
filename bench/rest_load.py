"""A load on the REST API: requests in a closed loop over a number of connections, and what became of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.figures import Figures
from bench.timeline import InvalidRun

CONNECTIONS = 16
TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RestLoad:
    """Requests to `base` by turns: the token and the path of each. With `sends` they post messages, each a new one."""

    base: str
    places: Sequence[tuple[str, str]]
    sends: str | None = None
    """The beginning of the messages' ids."""

    @property
    def method(self) -> str:
        return "GET" if self.sends is None else "POST"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`p50` and `p99` in seconds. `failed`: answers that are no success, and connections that broke."""

    requests: int
    failed: int
    p50: float
    p99: float

    def figures(self, seconds: float) -> Figures:
        """Raises `InvalidRun` if a request failed."""
        if self.failed or not self.requests:
            raise InvalidRun(f"{self.failed} of {self.requests} requests failed")
        return {
            "requests_per_s": self.requests / seconds,
            "request_p50_ms": self.p50 * 1000,
            "request_p99_ms": self.p99 * 1000,
        }
