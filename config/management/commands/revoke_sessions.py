from config.wiring.staff import staff_services
from staff.commands.people import RevokeSessionsCommand


class Command(RevokeSessionsCommand):
    services = staticmethod(staff_services)
