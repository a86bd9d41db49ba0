from config.wiring.staff import staff_services
from staff.commands.people import ExportPersonCommand


class Command(ExportPersonCommand):
    services = staticmethod(staff_services)
