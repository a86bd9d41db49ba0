"""Checks one chat for a page: whether DynamoDB agrees with itself, and Kafka with DynamoDB."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

from foundation.kernel.errors import Conflict, Unavailable
from foundation.kernel.ids import ChatId
from foundation.kernel.loops import ServiceLoop
from staff.findings import Finding
from staff.services.audit.auditor import Auditor, AuditScope
from staff.services.reconcile import Reconciler, Scope

CHECK_SECONDS = 30.0


class CheckRunning(Conflict):
    """This process checks a chat for somebody else."""

    code = "check_running"
    title = "Another check is running: try again when it is done"


class CheckTooLong(Unavailable):
    """The check did not end in time."""

    code = "check_too_long"
    title = "The check takes too long for a page: use `manage.py audit --chat` and `manage.py reconcile --chat`"


class Checks(Protocol):
    """What compares, and the loop that it runs on."""

    @property
    def auditor(self) -> Auditor: ...

    @property
    def reconciler(self) -> Reconciler: ...

    @property
    def loop(self) -> ServiceLoop: ...


class ChatCheck:
    """One at a time in a process, and for `seconds` at most: a check reads a week of the log. Blocking."""

    def __init__(self, checks: Callable[[], Checks], *, seconds: float = CHECK_SECONDS) -> None:
        self._checks = checks
        self._seconds = seconds
        self._running = threading.Lock()

    def run(self, chat_id: ChatId, *, repair: bool) -> list[Finding]:
        """What does not agree; with `repair`, what leaves no doubt is repaired. A repair can be repeated.

        Raises `CheckRunning`, `CheckTooLong`, and `StoreUnavailable` when an engine is away.
        """
        if not self._running.acquire(blocking=False):
            raise CheckRunning
        try:
            return self._run(chat_id, repair=repair)
        finally:
            self._running.release()

    def _run(self, chat_id: ChatId, *, repair: bool) -> list[Finding]:
        checks, deadline = self._checks(), time.monotonic() + self._seconds

        def on_progress(stage: str, done: int, total: int | None = None) -> None:
            """Ends the thread that reads the log, which cannot be cancelled."""
            if time.monotonic() > deadline:
                raise CheckTooLong

        async def check() -> list[Finding]:
            audit = await checks.auditor.run(AuditScope(chat_ids=[chat_id]), repair=repair)
            events = await checks.reconciler.run(Scope(chat_ids=[chat_id]), repair=repair, on_progress=on_progress)
            return [*audit.findings, *events.findings]

        try:
            return checks.loop.run(check(), timeout=self._seconds)
        except TimeoutError as error:
            raise CheckTooLong from error
