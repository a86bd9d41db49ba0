"""The parts of staff's pages and commands, on the apps of a `web` process."""

from functools import cache

from django.conf import settings

from config.wiring.commands import TABLES
from config.wiring.recovery import recovery
from config.wiring.web import Web
from staff.desk import Apps, Desk, DeskEngines, assemble_desk


@cache
def desk_of(web: Web) -> Desk:
    clients = web.clients
    return assemble_desk(
        Apps(accounts=web.accounts, chats=web.chats, messaging=web.messaging, delivery=web.delivery),
        DeskEngines(
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
