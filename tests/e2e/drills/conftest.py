from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.processes import PROJECT_ROOT
from tests.e2e.drills.runbook import Runbook
from tests.e2e.system import System


@pytest.fixture(scope="package")
def drilled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Two gateways and a fanout worker, with a migrated audit log. Each drill leaves it whole for the next."""
    with System(tmp_path_factory.mktemp("drills"), webs=2, fanouts=1, durable=True) as system:
        migrated = Runbook("README", system.environment).execute("python manage.py migrate --verbosity 0")
        assert migrated.code == 0, migrated.errors
        yield system


@pytest.fixture
def pages() -> list[Path]:
    return sorted(path for path in (PROJECT_ROOT / "docs" / "runbooks").glob("*.md") if path.stem != "README")
