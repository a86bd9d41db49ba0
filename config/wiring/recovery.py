"""The parts of operators' commands that look at the engines and repair."""

from functools import cache

from channels.layers import get_channel_layer

import staff.parts
from config.wiring.commands import clients
from foundation.stores.redis.control import ControlChannel


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
            notices=ControlChannel(get_channel_layer()),
            probes=used.probes(),
        ),
        clock=used.clock,
        ids=used.ids,
    )
