"""By which signals the broker is made to refuse connections, and to take them again, for tests of what happens then."""

import signal

TAKE_DOWN = signal.SIGUSR1
BRING_UP = signal.SIGUSR2
