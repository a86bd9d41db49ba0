"""The OpenAPI document as a promise: whatever it allows or forbids, the answer is one that it lists, never a 5xx."""

from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks

from foundation.rest.schema import document as openapi_document
from tests.e2e.system import Device, System

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]

# Without the logout, which would end the session of every later request.
document = schemathesis.openapi.from_dict(orjson.loads(openapi_document("config.urls"))).exclude(
    path="/api/auth/logout"
)


@pytest.fixture(scope="module")
def caller(system: System) -> Device:
    return system.user()


@document.parametrize()
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_operation_keeps_its_promise(case: schemathesis.Case[Any], system: System, caller: Device) -> None:
    url = system.webs[0].url
    # The host is HTTP's own business: a made-up one is refused before the API is reached.
    answer = case.call(base_url=url, headers={**caller.headers, "Host": urlsplit(url).netloc}, timeout=30)
    case.validate_response(answer, checks=CHECKS)
    assert answer.status_code < 500
