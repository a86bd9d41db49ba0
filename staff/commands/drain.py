from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import orjson
from django.core.management.base import CommandError

from foundation.commands.base import COULD_NOT_LOOK
from staff.commands.base import FOUND, StaffCommand
from staff.parts import Recovery
from staff.services.drain import GatewayNotFound


class DrainCommand(StaffCommand):
    services: Callable[[], Recovery]
    help = (
        "Let the clients of a gateway move on to others (close code 1012, over three seconds). It takes no new ones "
        "and is not ready until --undo or its restart. Without GATEWAY: list them. Exit code 1: no such gateway, or "
        "connections are left."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("gateway", nargs="?", metavar="GATEWAY", help="the id, such as gw-1a2b3c4d5e6f")
        parser.add_argument("--undo", action="store_true", help="let it take connections again")

    def handle(self, *args: Any, **options: Any) -> None:
        gateway = options["gateway"]
        if options["undo"] and gateway is None:
            raise CommandError("Name the GATEWAY that takes connections again.", returncode=COULD_NOT_LOOK)
        drainer = self.services().drainer
        if gateway is None:
            self._print(options, drainer.connections())
            return
        if not options["undo"]:
            self.confirm(options, f"Close the connections of {gateway}?")
        try:
            with self.recorded(options, action="resume" if options["undo"] else "drain", target=gateway):
                if options["undo"]:
                    drainer.resume(gateway)
                    before = left = 0
                else:
                    before, left = drainer.drain(gateway)
        except GatewayNotFound as error:
            raise CommandError(error.detail, returncode=FOUND) from error
        if options["json"]:
            self.stdout.write(orjson.dumps({"gateway_id": gateway, "before": before, "left": left}).decode())
        elif options["undo"]:
            self.stdout.write(f"{gateway} takes connections again.")
        else:
            self.stdout.write(f"{gateway}: {before - left} of {before} connections have moved on.")
        if left:
            raise CommandError(f"{left} connections are left.", returncode=FOUND)

    def _print(self, options: dict[str, Any], found: dict[str, int]) -> None:
        if options["json"]:
            self.stdout.write(orjson.dumps(found).decode())
            return
        for gateway_id, connections in found.items():
            self.stdout.write(f"{gateway_id}  {connections} connections")
