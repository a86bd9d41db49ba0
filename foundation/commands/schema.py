from collections.abc import Callable, Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from foundation.commands.base import EngineCommand
from foundation.stores.dynamodb import Database, schema
from foundation.stores.dynamodb.table import Table
from foundation.stores.dynamodb.template import template_drift

TEMPLATE = "deploy/aws/data.yaml"


class SchemaCommand(EngineCommand):
    tables: Sequence[type[Table]]
    database: Callable[[], Database]


class CreateTablesCommand(SchemaCommand):
    help = "Create the DynamoDB tables that are missing, wait until active, turn on expiry (TTL) and recovery (PITR)."

    def handle(self, *args: Any, **options: Any) -> None:
        schema.create_missing(
            self.database(), self.tables, capacities=settings.TABLE_CAPACITY, report=self.stdout.write
        )


class CheckSchemaCommand(SchemaCommand):
    help = (
        f"Compare the models with the live tables, and with {TEMPLATE} where it is at hand; print each "
        "difference and exit non-zero when there is one."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        differences = [
            *schema.drift(self.database(), self.tables, capacities=settings.TABLE_CAPACITY),
            *template_drift(settings.BASE_DIR / TEMPLATE, self.tables),
        ]
        for line in differences:
            self.stdout.write(line)
        if differences:
            raise CommandError(f"{len(differences)} differences from the models")
        self.stdout.write(f"{len(self.tables)} tables agree with their models")
