from config.wiring.commands import TABLES, clients
from foundation.commands.schema import CheckSchemaCommand


class Command(CheckSchemaCommand):
    tables = TABLES
    database = staticmethod(lambda: clients().database)
