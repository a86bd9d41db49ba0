from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from config.wiring.commands import TABLES, clients
from foundation.kernel.errors import ParleyError
from foundation.stores.dynamodb import schema


class Command(BaseCommand):
    """Thin: `foundation.stores.dynamodb.schema` does the work."""

    help = "Compare the models with the live tables; print each difference and exit non-zero when there is one."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            differences = list(schema.drift(clients().database, TABLES, capacities=settings.TABLE_CAPACITY))
        except ParleyError as error:
            raise CommandError(error.detail) from error
        for line in differences:
            self.stdout.write(line)
        if differences:
            raise CommandError(f"{len(differences)} differences between the models and the live tables")
        self.stdout.write(f"{len(TABLES)} tables agree with their models")
