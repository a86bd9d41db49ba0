from config.wiring.recovery import recovery
from staff.commands.replay import ReplayCommand


class Command(ReplayCommand):
    services = staticmethod(recovery)
