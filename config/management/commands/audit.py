from config.wiring.recovery import recovery
from staff.commands.audit import AuditCommand


class Command(AuditCommand):
    services = staticmethod(recovery)
