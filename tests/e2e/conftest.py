"""Runs of `manage.py dev`, and systems of single processes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from tests.e2e.dev_run import DevRun
from tests.e2e.system import WEBS, System


@pytest.fixture
def start_dev() -> Iterator[Callable[..., DevRun]]:
    """Start runs that end with the test, with options of the command."""
    with ExitStack() as runs:
        yield lambda data_dir, *options: runs.enter_context(closing(DevRun(data_dir, *options)))


@pytest.fixture(scope="module")
def ready_dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevRun]:
    """A run that is ready, shared by the tests of a module."""
    with closing(DevRun(tmp_path_factory.mktemp("parley"))) as run:
        run.wait_until_ready()
        yield run


@pytest.fixture(scope="package")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """At least two gateways, and two fanout workers, shared by the tests that leave its processes alone."""
    with System(tmp_path_factory.mktemp("system"), webs=max(2, WEBS), fanouts=2) as system:
        yield system
    system.require_no_failures()
