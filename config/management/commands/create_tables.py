from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from config.wiring.commands import TABLES, clients
from foundation.kernel.errors import ParleyError
from foundation.stores.dynamodb import schema


class Command(BaseCommand):
    """Thin: `foundation.stores.dynamodb.schema` does the work."""

    help = "Create the DynamoDB tables that are missing, wait until active, turn on expiry (TTL) and recovery (PITR)."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            schema.create_missing(
                clients().database, TABLES, capacities=settings.TABLE_CAPACITY, report=self.stdout.write
            )
        except ParleyError as error:
            raise CommandError(error.detail) from error
