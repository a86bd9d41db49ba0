from config.wiring.staff import staff_services
from staff.commands.people import RestoreCommand


class Command(RestoreCommand):
    services = staticmethod(staff_services)
