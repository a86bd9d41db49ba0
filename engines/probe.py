"""One HTTP question to a server on loopback, past any proxy that the environment names."""

import http.client
from collections.abc import Mapping

from engines.ports import LOOPBACK

TIMEOUT = 5.0


def get_status(port: int, path: str) -> int | None:
    """The status of a GET; None where nothing answers."""
    return _ask(port, "GET", path, body=None, headers={})


def post_status(port: int, *, body: str, headers: Mapping[str, str]) -> int | None:
    """The status of a POST to the root; None where nothing answers."""
    return _ask(port, "POST", "/", body=body, headers=headers)


def _ask(port: int, method: str, path: str, *, body: str | None, headers: Mapping[str, str]) -> int | None:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=TIMEOUT)
    try:
        connection.request(method, path, body=body, headers=headers)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
