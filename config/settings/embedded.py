"""A laptop: engines started by `manage.py dev`, a secret made at the first run, loopback only."""

import secrets

from config.settings import environment as env
from config.settings.base import *  # noqa: F403
from config.settings.base import ALLOWED_ORIGINS, DATA_DIR

EMBEDDED = True


def _local_secret() -> str:
    """A secret of this data directory's own, so that logins survive a restart and no default is ever shared."""
    path = DATA_DIR / "secret"
    if not path.exists():
        DATA_DIR.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(48))
    return path.read_text()


SECRET_KEY = env.text("SECRET_KEY") or _local_secret()
JWT_KEYS = env.key_ring(env.text("JWT_KEYS") or f"local:{SECRET_KEY}")
SMS_BACKEND = env.text("SMS_BACKEND", "file")
ALLOWED_HOSTS = env.listed("ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]")
ALLOWED_ORIGINS = ALLOWED_ORIGINS or ["http://127.0.0.1:*", "http://localhost:*"]
