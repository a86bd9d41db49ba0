from config.wiring.recovery import recovery
from staff.commands.drain import DrainCommand


class Command(DrainCommand):
    services = staticmethod(recovery)
