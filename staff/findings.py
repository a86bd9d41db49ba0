"""What a check has found, and the report of a whole run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One disagreement. `detail` says in a sentence what is wrong and what repairs it. `topic` is that of an event."""

    kind: str
    detail: str = ""
    chat_id: str | None = None
    sequence: int | None = None
    user_id: str | None = None
    topic: str | None = None
    repaired: bool = False

    def as_repaired(self) -> "Finding":
        return replace(self, repaired=True)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "topic": self.topic,
            "chat_id": self.chat_id,
            "sequence": self.sequence,
            "user_id": self.user_id,
            "detail": self.detail,
            "repaired": self.repaired,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """`checked` counts what was looked at: chats, users, or checks. `notes` are sentences about how.

    `all_well` is a sentence for a report without findings, where the check has one of its own. `unseen` says what
    could not be looked at.
    """

    findings: Sequence[Finding]
    checked: int
    notes: Sequence[str] = ()
    all_well: str = ""
    unseen: str = ""

    @property
    def left(self) -> Sequence[Finding]:
        """What is not repaired."""
        return [finding for finding in self.findings if not finding.repaired]

    def to_json(self) -> dict[str, Any]:
        return {
            "findings": [finding.to_json() for finding in self.findings],
            "checked": self.checked,
            "notes": [*self.notes, *([self.unseen] if self.unseen else [])],
        }


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """By chat, then by sequence, so that two runs print the same."""
    return sorted(findings, key=_place)


def _place(each: Finding) -> tuple[str, int, str, str, str]:
    return each.chat_id or "", each.sequence or 0, each.user_id or "", each.topic or "", each.kind
