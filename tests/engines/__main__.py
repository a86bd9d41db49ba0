"""`python -m tests.engines`: run the real engines until Ctrl-C and print the variables that point at them."""

import shlex
import signal
import sys
from contextlib import ExitStack

from engines.errors import CannotRun
from engines.redis import RedisEngine
from tests.engines.dynamodb_local import DynamoDbLocal
from tests.engines.kafka import ApacheKafka


def main() -> None:
    # SIGTERM stops the engines as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ExitStack() as stack:
            for engine in (RedisEngine(), DynamoDbLocal(), ApacheKafka()):
                stack.enter_context(engine)
                for name, value in engine.environment().items():
                    sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
                    sys.stdout.flush()
            signal.pause()
    except CannotRun as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
