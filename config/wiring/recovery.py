"""The parts of operators' commands that look at the engines and repair."""

from functools import cache

from channels.layers import get_channel_layer
from django.conf import settings

import staff.parts
from config.wiring.commands import TABLES, clients
from foundation.stores.redis.control import RevocationChannel
from staff.services.deploy_checks import Deployment


@cache
def recovery() -> staff.parts.Recovery:
    """This process's parts."""
    used = clients()
    return staff.parts.assemble_recovery(
        staff.parts.Engines(
            database=used.database,
            producer=used.producer,
            event_log=used.event_log,
            kafka=used.kafka_options,
            redis=used.redis,
            notices=RevocationChannel(get_channel_layer()),
        ),
        clock=used.clock,
        ids=used.ids,
    )


def deployment(*, may_write: bool) -> Deployment:
    """What `check_deploy` looks at."""
    used = clients()
    return Deployment(
        database=used.database,
        tables=TABLES,
        capacities=settings.TABLE_CAPACITY,
        event_log=used.event_log,
        redis=used.redis,
        clock=used.clock,
        is_embedded=settings.EMBEDDED,
        may_write=may_write,
    )
