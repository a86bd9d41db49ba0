import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bench.processes import ClientProcesses, cpu_of, queued_of
from tests.doubles import eventually


class TestWaiting:
    def test_of_two_on_one_processor_one_waits_while_the_other_runs(self) -> None:
        command = (sys.executable, "-c", "while True: pass")
        with subprocess.Popen(command) as one, subprocess.Popen(command) as other:
            try:
                for each in (one, other):
                    os.sched_setaffinity(each.pid, {min(os.sched_getaffinity(0))})
                process = psutil.Process(one.pid)
                before = queued_of(process)
                # Where Linux does not tell, nobody claims to know.
                assert (before is not None) == Path("/proc/self/schedstat").exists()
                eventually(lambda: queued_of(process) != before or before is None)
            finally:
                one.kill()
                other.kill()


class TestClientProcesses:
    def test_who_helps_counts_for_as_long(self) -> None:
        working = "for _ in range(10**6): pass\nprint(flush=True)\ninput()"
        command = (sys.executable, "-c", working)
        clients = ClientProcesses()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as helper:
            assert helper.stdout is not None
            helper.stdout.readline()
            used = cpu_of(psutil.Process(helper.pid))
            alone = clients.cpu()
            with clients.joined_by([helper.pid]):
                assert clients.cpu() >= alone + used
            helper.terminate()
        assert used > 0

    def test_it_is_alone_again_whatever_happened(self) -> None:
        clients, seen = ClientProcesses(), []

        def fail() -> None:
            with clients.joined_by([psutil.Process().pid]):
                seen.append(clients.cpu())
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert clients.cpu() < seen[0]
