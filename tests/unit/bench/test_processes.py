import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bench.processes import ClientProcesses, cpu_of, run_queue_wait_of
from tests.doubles import eventually


class TestRunQueueWait:
    def test_it_grows_when_two_processes_share_a_processor(self) -> None:
        command = (sys.executable, "-c", "while True: pass")
        with subprocess.Popen(command) as one, subprocess.Popen(command) as other:
            try:
                for each in (one, other):
                    os.sched_setaffinity(each.pid, {min(os.sched_getaffinity(0))})
                process = psutil.Process(one.pid)
                before = run_queue_wait_of(process)
                # None where the kernel has no schedstat.
                assert (before is not None) == Path("/proc/self/schedstat").exists()
                eventually(lambda: run_queue_wait_of(process) != before or before is None)
            finally:
                one.kill()
                other.kill()


class TestClientProcesses:
    def test_further_processes_count_within_the_block(self) -> None:
        working = "for _ in range(10**6): pass\nprint(flush=True)\ninput()"
        command = (sys.executable, "-c", working)
        clients = ClientProcesses()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as helper:
            assert helper.stdout is not None
            helper.stdout.readline()
            used = cpu_of(psutil.Process(helper.pid))
            alone = clients.cpu()
            with clients.including([helper.pid]):
                assert clients.cpu() >= alone + used
            helper.terminate()
        assert used > 0

    def test_they_no_longer_count_after_a_failure(self) -> None:
        clients, seen = ClientProcesses(), []

        def fail() -> None:
            with clients.including([psutil.Process().pid]):
                seen.append(clients.cpu())
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert clients.cpu() < seen[0]
