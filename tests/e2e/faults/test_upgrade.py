"""A rolling upgrade: processes of two revisions serve the same chats, and clients lose nothing."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from engines.processes import PROJECT_ROOT
from tests.e2e.faults.crowd import Crowd
from tests.e2e.system import System

REVISION_BEFORE = "100f93a8227135cb818873ef969965224a05865f"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of the revision before."""
    archive = subprocess.run(
        ["git", "archive", REVISION_BEFORE], cwd=PROJECT_ROOT, capture_output=True, timeout=60, check=True
    )
    root = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(root, filter="data")
    return root


async def test_replacing_readers_then_writers_one_by_one_loses_nothing(before: Path, tmp_path: Path) -> None:
    with System(tmp_path, webs=0, fanouts=0, durable=True) as system:
        old_fanout = system.start_fanout(root=before)
        old_webs = [system.start_web(before) for _ in range(2)]
        async with Crowd(system) as crowd:
            await crowd.goes_on()
            system.start_fanout()
            await crowd.goes_on()
            old_fanout.terminate()
            assert old_fanout.wait() == 0
            await crowd.goes_on()
            for old_web in old_webs:
                crowd.webs.append(system.start_web())
                await crowd.goes_on()
                crowd.webs.remove(old_web)
                old_web.terminate()
                assert old_web.wait() == 0
                await crowd.goes_on()
            await crowd.converges()
        system.require_no_failures()
