"""A system that may be broken: each test leaves it whole for the next."""

from collections.abc import Iterator

import pytest

from tests.e2e.system import System


@pytest.fixture(scope="package")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with System(tmp_path_factory.mktemp("fragile"), webs=2, fanouts=1, durable=True) as system:
        yield system
