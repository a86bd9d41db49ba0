"""moto's server without a line per request: `python -m config.embedded.moto_server HOST PORT`."""

import logging
import sys

from moto.server import main as serve


def main() -> None:
    host, port = sys.argv[1:]
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    serve(["--host", host, "--port", port])


if __name__ == "__main__":
    main()
