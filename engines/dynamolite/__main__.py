"""Run the server: `python -m engines.dynamolite --port 8000 --file data/dynamodb.sqlite`."""

import argparse
import asyncio
import logging
import signal
import sqlite3
import sys
from pathlib import Path

import uvloop

from engines.dynamolite.delay import AnswerDelay
from engines.dynamolite.server import Server
from engines.dynamolite.service import Service
from engines.dynamolite.store import Store
from engines.garbage import tune_gc


def main() -> None:
    parser = argparse.ArgumentParser(prog="dynamolite", description="DynamoDB on one SQLite file.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="default: %(default)s")
    parser.add_argument("--file", type=Path, help="the data file; without it the data is in memory")
    parser.add_argument(
        "--delay",
        type=AnswerDelay.parse,
        metavar="T/R",
        help="answer transactions after T milliseconds and other requests after R, as a store across a network does",
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        store = Store(arguments.file)
    except sqlite3.Error as error:
        sys.exit(f"{arguments.file} cannot be opened ({error}): it may be in use by another process.")
    try:
        uvloop.run(serve(store, arguments.host, arguments.port, delay=arguments.delay))
    finally:
        store.close()


async def serve(store: Store, host: str, port: int, *, delay: AnswerDelay | None) -> None:
    """Serve until SIGINT or SIGTERM."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    server = Server(Service(store), delay=delay)
    tune_gc()
    listener = await loop.create_server(server.make_connection, host, port)
    await stopped.wait()
    listener.close()
    server.close()


if __name__ == "__main__":
    main()
