"""Run a program that is killed when its parent ends: `python -I -S die_with_parent.py PARENT_PID PROGRAM ARGUMENT...`.

Linux sends the signal when the *thread* that forked the child ends, so `processes` starts every child from one
long-lived thread. Other systems have no such signal: there, children end only when the parent stops them.
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
        # A parent that ended before the call above sends no signal.
        if os.getppid() != int(parent):
            sys.exit("the parent has ended")
    os.execvp(command[0], command)  # noqa: S606 - our own commands, and no shell in between


if __name__ == "__main__":
    main()
