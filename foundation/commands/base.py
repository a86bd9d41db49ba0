"""The base of commands that use an engine."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from foundation.kernel.errors import ParleyError

COULD_NOT_LOOK = 2
"""Exit status: nothing is known, as an engine did not answer."""


class EngineCommand(BaseCommand):
    """Ends with one sentence when an engine fails."""

    requires_system_checks: list[str] = []

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except ParleyError as error:
            raise CommandError(error.detail, returncode=COULD_NOT_LOOK) from error
        except TimeoutError as error:
            raise CommandError("An engine did not answer in time.", returncode=COULD_NOT_LOOK) from error
