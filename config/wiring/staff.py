"""The parts of staff's pages and commands, on the apps of a `web` process."""

from functools import cache

from django.conf import settings

from config.wiring.commands import TABLES
from config.wiring.recovery import recovery
from config.wiring.web import Web, web
from staff.assembly import Apps, StaffEngines, StaffServices, assemble_staff_services


def staff_services() -> StaffServices:
    """Those of a command."""
    return staff_services_of(web())


@cache
def staff_services_of(web: Web) -> StaffServices:
    clients = web.clients
    return assemble_staff_services(
        Apps(accounts=web.accounts, chats=web.chats, messaging=web.messaging, delivery=web.delivery),
        StaffEngines(
            database=clients.database,
            redis=clients.redis,
            kafka=clients.kafka_options,
            probes=web.probes,
            tables=TABLES,
        ),
        recovery=recovery,
        address_of=web.client_address,
        clock=clients.clock,
        redacts_erased=settings.ERASED_MESSAGES == "redact",
    )
