"""The start of a process: settings that are refused end it with sentences, and the rest is logged as one line."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from django.conf import settings

from config.settings.environment import SettingsRefused, env

EXIT_STATUS = 2

log = logging.getLogger(__name__)


@contextmanager
def refusing_in_sentences() -> Iterator[None]:
    """End the process with one sentence per problem of its settings, without a traceback."""
    try:
        yield
    except SettingsRefused as refused:
        sys.stderr.write(f"{refused}\n")
        sys.exit(EXIT_STATUS)


def log_start(process: str) -> None:
    """Log what this process runs with: its revision, settings, engines and limits, and no credentials.

    Raises `SettingsRefused` if they do not say where DynamoDB is.
    """
    log.info("%s starts: %s", process, ", ".join(f"{name} {value}" for name, value in describe().items()))


def describe() -> dict[str, str]:
    return {
        "revision": env.text("REVISION", "unknown"),
        "settings": os.environ.get("DJANGO_SETTINGS_MODULE", "unknown"),
        "dynamodb": _dynamodb(),
        "kafka": settings.KAFKA_BOOTSTRAP_SERVERS,
        "redis": _address(settings.REDIS_URL),
        "limits": " ".join(f"{name}={value:.10g}" for name, value in env.numbers.items()),
    }


def _dynamodb() -> str:
    """The endpoint that the process will use, and the region that it signs for, which need not agree."""
    # Importing PynamoDB logs, so it waits for the logging of the settings.
    from foundation.stores.dynamodb.endpoint import resolve_endpoint  # noqa: PLC0415
    from foundation.stores.errors import EndpointUnusable  # noqa: PLC0415

    try:
        endpoint = resolve_endpoint(settings.AWS_REGION, settings.DYNAMODB_ENDPOINT_URL)
    except EndpointUnusable as unusable:
        raise SettingsRefused(f"{unusable.detail}.") from unusable
    return f"{_address(str(endpoint))} ({settings.AWS_REGION})"


def _address(url: str) -> str:
    """Leave out user, password and query, which may hold another password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else url
