from config.wiring.staff import staff_services
from staff.commands.people import ErasePersonCommand


class Command(ErasePersonCommand):
    services = staticmethod(staff_services)
