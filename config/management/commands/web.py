from collections.abc import Iterable
from typing import TYPE_CHECKING

from foundation.commands.web import WebCommand

if TYPE_CHECKING:
    from foundation.server.daphne import ParleyServer


class Command(WebCommand):
    def server(self, endpoints: Iterable[str]) -> "ParleyServer":
        from config.wiring.server import server  # noqa: PLC0415 - imports daphne

        return server(endpoints)
