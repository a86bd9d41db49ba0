"""Reading the environment. Every problem is one sentence that names the variable and says what to put there.

Problems are collected while the settings are read and refused together, so that one start shows them all.
"""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

MIN_KEY_LENGTH = 32


class SettingsRefused(ImproperlyConfigured):
    """Raised when the environment cannot be used. Its text is one sentence a line; no traceback is needed."""


class Environment:
    """Reads variables of `variables`. What cannot be used is remembered, and a default is returned in its place."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        # Ordered and without repetition: Django imports settings again that were refused.
        self._problems: dict[str, None] = {}
        self.numbers: dict[str, float] = {}
        """The numbers read so far, by variable: limits, sizes and timeouts."""

    def refuse(self, problem: str) -> None:
        self._problems[problem] = None

    @property
    def problems(self) -> list[str]:
        return list(self._problems)

    def require_no_problem(self) -> None:
        """Raises `SettingsRefused`. The last line of every settings module."""
        if self._problems:
            raise SettingsRefused("\n".join(self._problems))

    def text(self, name: str, default: str = "") -> str:
        """The value as it is. Blanks and commas alone count as no value."""
        value = self._variables.get(name, "")
        return value if value.strip(", \t\n") else default

    def required(self, name: str, hint: str) -> str:
        if not (value := self.text(name)):
            self.refuse(f"{name} is not set: {hint}.")
        return value

    def listed(self, name: str, default: str = "") -> list[str]:
        return [part.strip() for part in self.text(name, default).split(",") if part.strip()]

    def one_of(self, name: str, allowed: Sequence[str], default: str) -> str:
        """The member of `allowed` that the variable names, in upper or lower case."""
        value = self.text(name, default).strip()
        for each in allowed:
            if each.lower() == value.lower():
                return each
        self.refuse(f"{name} must be one of {', '.join(allowed)}, not {value!r}.")
        return default

    def url(self, name: str, schemes: Sequence[str], default: str = "") -> str:
        value = self.text(name, default).strip()
        if value and value.partition("://")[0] not in schemes:
            # Not repeated in the sentence: it may contain a password.
            self.refuse(f"{name} must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}.")
            return default
        return value

    def database(self, name: str, default: str) -> dict[str, Any]:
        """Django's options of a database URL."""
        try:
            return dict(dj_database_url.parse(self.text(name, default)))
        except ValueError:
            self.refuse(f"{name} must be a URL such as postgres://user:password@host:5432/name.")
            return dict(dj_database_url.parse(default))

    def number(self, name: str, default: float) -> float:
        """A number of 0 or more."""
        value = self.text(name)
        try:
            number = float(value) if value else float(default)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number >= 0):
            self.refuse(f"{name} must be a number of 0 or more, not {value!r}.")
            return default
        self.numbers[name] = number
        return number

    def whole(self, name: str, default: int) -> int:
        value = self.number(name, default)
        if value != int(value):
            self.refuse(f"{name} must be a whole number, not {value}.")
        return int(value)

    def limit(self, name: str, *, rate: float, burst: int) -> tuple[float, int]:
        """`NAME_RATE`, a second in the long run, and `NAME_BURST`, at once. Without either, nothing would be served."""
        given, most = self.number(f"{name}_RATE", rate), self.whole(f"{name}_BURST", burst)
        if not (given and most):
            self.refuse(f"{name}_{'BURST' if given else 'RATE'} must be above 0.")
        return given, most

    def key_ring(self, name: str, value: str) -> dict[str, str]:
        """`kid:secret,kid:secret`: the first signs, all verify, so that keys rotate without logging anyone out."""
        ring: dict[str, str] = {}
        for part in filter(None, (part.strip() for part in value.split(","))):
            kid, _, secret = part.partition(":")
            # No part is repeated in a sentence: it may be the secret.
            if not kid or len(secret) < MIN_KEY_LENGTH:
                self.refuse(
                    f"{name} must be kid:secret pairs, comma-separated, secrets of {MIN_KEY_LENGTH}+ characters."
                )
            elif kid in ring:
                self.refuse(f"{name} has two keys with the same kid.")
            else:
                ring[kid] = secret
        return ring


env = Environment(os.environ)
"""The environment of this process."""
