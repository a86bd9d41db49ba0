from config.wiring.staff import staff_services
from staff.commands.people import ShowPersonCommand


class Command(ShowPersonCommand):
    services = staticmethod(staff_services)
