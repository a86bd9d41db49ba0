"""Run the broker: `python -m engines.kafkalite --port 9092 news weather`."""

import argparse
import asyncio
import logging
import signal
import sys

import uvloop

from engines.garbage import tune_gc
from engines.kafkalite.broker import Broker
from engines.kafkalite.server import Server
from engines.kafkalite.signals import BRING_UP, TAKE_DOWN


def main() -> None:
    parser = argparse.ArgumentParser(prog="kafkalite", description="Kafka in one process, with its log in memory.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=9092, help="default: %(default)s")
    parser.add_argument("--partitions", type=int, default=3, help="of each topic (default: %(default)s)")
    parser.add_argument("topics", nargs="+", metavar="TOPIC")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        uvloop.run(serve(arguments.host, arguments.port, dict.fromkeys(arguments.topics, arguments.partitions)))
    except OSError as error:
        sys.exit(f"Cannot listen on port {arguments.port}: {error}")


async def serve(host: str, port: int, topics: dict[str, int]) -> None:
    """Serve until SIGINT or SIGTERM. Two other signals take the broker down and bring it up again."""
    loop, stopped, bring_up = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    server = Server(Broker(host=host, port=port, topics=topics), host=host, port=port)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    loop.add_signal_handler(TAKE_DOWN, server.take_down)
    loop.add_signal_handler(BRING_UP, bring_up.set)
    tune_gc()
    await server.bring_up()
    task = asyncio.ensure_future(_bring_up_on(bring_up, server))
    await stopped.wait()
    task.cancel()
    server.close()


async def _bring_up_on(event: asyncio.Event, server: Server) -> None:
    while True:
        await event.wait()
        event.clear()
        try:
            await server.bring_up()
        except OSError as error:
            logging.getLogger(__name__).warning("The broker stays down: %s", error)


if __name__ == "__main__":
    main()
