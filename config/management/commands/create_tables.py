from config.wiring.commands import TABLES, clients
from foundation.commands.schema import CreateTablesCommand


class Command(CreateTablesCommand):
    tables = TABLES
    database = staticmethod(lambda: clients().database)
