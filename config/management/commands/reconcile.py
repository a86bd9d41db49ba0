from config.start import log_start
from config.wiring.recovery import recovery
from staff.commands.reconcile import ReconcileCommand


class Command(ReconcileCommand):
    services = staticmethod(recovery)
    log_start = staticmethod(log_start)
