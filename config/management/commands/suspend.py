from config.wiring.staff import staff_services
from staff.commands.people import SuspendCommand


class Command(SuspendCommand):
    services = staticmethod(staff_services)
