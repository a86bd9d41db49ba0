"""The OpenAPI document as a promise: whatever it allows or forbids, the answer is one that it lists, never a 5xx."""

from typing import Any

import pytest
import schemathesis
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, settings
from schemathesis import checks

from tests.e2e.system import Device, System

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]

# Without the logout, which would end the session of every later request.
document = schemathesis.openapi.from_dict(SchemaGenerator().get_schema(request=None, public=True)).exclude(
    path="/api/auth/logout"
)


@pytest.fixture(scope="module")
def caller(system: System) -> Device:
    return system.user()


@document.parametrize()
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_operation_keeps_its_promise(case: schemathesis.Case[Any], system: System, caller: Device) -> None:
    answer = case.call(base_url=system.webs[0].url, headers=caller.headers, timeout=30)
    case.validate_response(answer, checks=CHECKS)
    assert answer.status_code < 500
