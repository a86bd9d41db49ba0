from config.start import log_start
from config.wiring.fanout import fanout
from delivery.commands import FanoutCommand


class Command(FanoutCommand):
    worker = staticmethod(fanout)
    log_start = staticmethod(log_start)
