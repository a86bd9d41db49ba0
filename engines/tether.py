"""Become another program that cannot outlive its parent: `python -I -S tether.py PARENT_PID PROGRAM ARGUMENT...`.

Linux delivers the death signal when the *thread* that forked us ends, hence the one long-lived thread that starts every
child (`processes`). Elsewhere there is no such signal, and only an orderly stop takes the children along.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # A parent that died before the call above will never send the signal.
        if os.getppid() != int(parent):
            sys.exit("the parent is gone")
    os.execvp(command[0], command)  # noqa: S606 - our own commands, and no shell in between


if __name__ == "__main__":
    main()
