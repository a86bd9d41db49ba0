"""The test suite: fixed secrets, a data directory of its own, engines chosen by fixtures."""

import os
import tempfile

os.environ.setdefault("DATA_DIR", tempfile.mkdtemp(prefix="parley-test-"))

from config.settings.base import *  # noqa: F403
from config.settings.environment import env

EMBEDDED = True
SECRET_KEY = "test-only-secret-that-never-leaves-the-suite"  # noqa: S105
JWT_KEYS = {"test": "test-only-signing-key-of-32-characters-or-more"}
SMS_BACKEND = "file"
ALLOWED_HOSTS = ["*"]
ALLOWED_ORIGINS = ["http://testserver"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}

env.require_no_problem()
