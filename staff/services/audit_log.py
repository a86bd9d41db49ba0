"""The audit log: who did what to whom, when, why, and from where.

An act is recorded before it is done: without the database nothing is done, and nothing done is missing. An act that
fails is followed by a second record that says so.
"""

import getpass
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q

from foundation.kernel.clock import Clock, SystemClock
from foundation.kernel.errors import Invalid, ParleyError
from staff.models import AuditRecord

MAX_REASON_LENGTH = 1000
NUL = "\0"
"""PostgreSQL stores it in no text and compares it with none."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, and from where: a browser's address or the host of a command."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Act:
    """What is done: `action` is a verb such as `suspend`, `target` the id of whoever it is done to."""

    actor: Actor
    action: str
    target: str
    reason: str
    details: Mapping[str, Any] = field(default_factory=dict)


def record(act: Act, *, clock: Clock | None = None) -> None:
    """Enter an act in the log. Raises `Invalid` without a reason."""
    reason = act.reason.replace(NUL, "").strip()
    if not reason or len(reason) > MAX_REASON_LENGTH:
        message = f"Say why, in at most {MAX_REASON_LENGTH} characters."
        raise Invalid(message, fields={"reason": [message]})
    AuditRecord.objects.create(
        at=(clock or SystemClock()).now(),
        actor=act.actor.name,
        action=act.action,
        target=act.target.replace(NUL, ""),
        reason=reason,
        source=act.actor.source,
        details={name: _without_nul(value) for name, value in act.details.items()},
    )


@contextmanager
def recorded(act: Act, *, clock: Clock | None = None) -> Iterator[None]:
    """Record the act, then let it be done. If it fails, record that too."""
    record(act, clock=clock)
    try:
        yield
    except Exception as error:
        code = error.code if isinstance(error, ParleyError) else type(error).__name__
        failed = Act(act.actor, f"{act.action}_failed", act.target, act.reason, {**act.details, "error": code})
        record(failed, clock=clock)
        raise


def list_records(*, about: str = "", before: int | None = None, limit: int) -> list[AuditRecord]:
    """The newest records, or those before a position; `about` is an actor or a target."""
    records = AuditRecord.objects.all()
    about = about.replace(NUL, "")
    if about:
        records = records.filter(Q(actor=about) | Q(target=about))
    if before is not None:
        records = records.filter(pk__lt=before)
    return list(records[:limit])


def _without_nul(value: Any) -> Any:
    return value.replace(NUL, "") if isinstance(value, str) else value


def command_actor(name: str | None = None) -> Actor:
    """Whoever runs this command: `name`, or the user of the operating system."""
    return Actor(name=name or f"os:{getpass.getuser()}", source=socket.gethostname())
