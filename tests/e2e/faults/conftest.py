"""A system that may be broken: each test leaves it whole for the next."""

from collections.abc import Iterator

import pytest

from tests.e2e.system import WEBS, System


@pytest.fixture(scope="package")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with System(tmp_path_factory.mktemp("fragile"), webs=max(2, WEBS), fanouts=1, durable=True) as system:
        yield system
