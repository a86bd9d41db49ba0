from config.wiring.commands import clients
from foundation.commands.topics import CreateTopicsCommand


class Command(CreateTopicsCommand):
    event_log = staticmethod(lambda: clients().event_log)
