import subprocess
import sys

import psutil
import pytest

from bench.clients import ClientProcesses, cpu_of


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
