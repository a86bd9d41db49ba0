"""HTTP health checks of servers on loopback, without the proxies that the environment may name."""

import http.client
from collections.abc import Mapping

from engines.ports import LOOPBACK

TIMEOUT_SECONDS = 5.0


def get_status(port: int, path: str) -> int | None:
    """Return the status of a GET; None without a response."""
    return _request_status(port, "GET", path, body=None, headers={})


def post_status(port: int, *, body: str, headers: Mapping[str, str]) -> int | None:
    """Return the status of a POST to `/`; None without a response."""
    return _request_status(port, "POST", "/", body=body, headers=headers)


def _request_status(port: int, method: str, path: str, *, body: str | None, headers: Mapping[str, str]) -> int | None:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request(method, path, body=body, headers=headers)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
