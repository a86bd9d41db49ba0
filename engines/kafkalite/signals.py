"""The signals that make the broker close and reopen its port, for tests of an outage."""

import signal

TAKE_DOWN = signal.SIGUSR1
BRING_UP = signal.SIGUSR2
