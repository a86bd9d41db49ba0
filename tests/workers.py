"""How `pytest -n` divides the suites: each worker has engines of its own, and what shares a system stays on one."""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

import pytest
from schemathesis.pytest.plugin import SchemathesisFunction
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Each of these keeps a processor busy and waits for it with deadlines: never two of them beside each other.
HEAVY = ("tests/e2e/browser/", "tests/e2e/faults/", "tests/e2e/drills/", "tests/real/test_broker_loss.py")
ON_THE_SHARED_SYSTEM = ("test_delivery", "test_gateway", "test_openapi", "test_terminal_client")
SHARED_SYSTEM = "tests/e2e/system"


class Shares(LoadScopeScheduling):  # type: ignore[misc]
    """A file at a time, in the order of the collection; some files only together."""

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)


def make_scheduler(config: pytest.Config, log: Producer) -> Shares:
    # Otherwise the files with the most tests come first, which are the quickest.
    config.option.loadscopereorder = False
    return Shares(config, log)


def share_of(nodeid: str) -> str:
    """What a worker takes as a whole: tests with the same answer run one after the other, in one process."""
    if nodeid.startswith(HEAVY):
        return "heavy"
    path = PurePosixPath(nodeid.partition("::")[0])
    if path.parent.as_posix() == "tests/e2e" and path.stem in ON_THE_SHARED_SYSTEM:
        return SHARED_SYSTEM
    return path.as_posix()


def put_heavy_first(items: list[pytest.Item]) -> None:
    """They take the longest: begun last, they would go on long after everything else."""
    items.sort(key=lambda item: not item.nodeid.startswith(HEAVY))


def tell_apart(items: Sequence[pytest.Item]) -> None:
    """Give every test an id of its own: of several with the same, a worker would run one and report nothing missing.

    Schemathesis makes a test for each operation and gives all of them the id of the function.
    """
    for item in items:
        if isinstance(item, SchemathesisFunction):
            item._id = item.id.with_params(item.operation_label)
    doubles = [nodeid for nodeid, count in Counter(item.nodeid for item in items).items() if count > 1]
    if doubles:
        raise pytest.UsageError(f"several tests have the same id: {', '.join(doubles)}")
