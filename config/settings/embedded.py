"""Settings for a laptop: engines started by `manage.py dev`, a secret made at the first run, loopback only.

Commands find the engines of the run on the same data directory.
"""

import os
import secrets
from pathlib import Path

from config.settings.environment import env
from engines.data_directory import environment_of_running_engines
from engines.processes import PROJECT_ROOT

# All or none: naming one engine means another deployment.
if not any(env.text(_name) for _name in ("DYNAMODB_ENDPOINT_URL", "KAFKA_BOOTSTRAP_SERVERS", "REDIS_URL")):
    os.environ.update(environment_of_running_engines(Path(env.text("DATA_DIR", str(PROJECT_ROOT / ".parley")))))

from config.settings.base import *  # noqa: F403
from config.settings.base import ALLOWED_ORIGINS, DATA_DIR

EMBEDDED = True


def _local_secret() -> str:
    """The secret that `manage.py dev` made for this data directory; without one, a secret of this process alone."""
    path = DATA_DIR / "secret"
    return path.read_text() if path.is_file() else secrets.token_urlsafe(48)


SECRET_KEY = env.text("SECRET_KEY") or _local_secret()
JWT_KEYS = env.key_ring("JWT_KEYS", env.text("JWT_KEYS")) or {"local": SECRET_KEY}
SMS_BACKEND = env.one_of("SMS_BACKEND", ("file", "sns", "webhook"), "file")
ALLOWED_HOSTS = env.listed("ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]")
# Tests and benchmarks open many sockets of one user.
MAX_CONNECTIONS_PER_USER = env.whole("MAX_CONNECTIONS_PER_USER", 1000)
ALLOWED_ORIGINS = ALLOWED_ORIGINS or ["http://127.0.0.1:*", "http://localhost:*"]

env.require_no_problem()
