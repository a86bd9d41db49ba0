from foundation.commands.metrics import MetricsCommand


class Command(MetricsCommand):
    declaring = (
        "config.wiring.web",
        "config.wiring.fanout",
        "config.wiring.recovery",
        "foundation.server.gate",
        "foundation.server.http",
        "foundation.server.shares",
    )
