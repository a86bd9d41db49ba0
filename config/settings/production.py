"""Settings for production. Refuse to start with a missing, weak or well-known value, and name every one of them."""

from config.settings import edges
from config.settings.base import *  # noqa: F403
from config.settings.base import ADMIN_PORT, ALLOWED_HOSTS, SECRET_KEY_FALLBACKS
from config.settings.environment import env
from config.settings.strength import find_weakness

_HINT = "make one with `python -c 'import secrets; print(secrets.token_urlsafe(48))'`"


def _require_strength(name: str, secret: str, *, least: int) -> None:
    if secret and (weakness := find_weakness(secret, least=least)):
        env.refuse(f"{name} {weakness}: {_HINT}.")


SECRET_KEY = env.required("SECRET_KEY", _HINT)
JWT_KEYS = env.key_ring("JWT_KEYS", env.required("JWT_KEYS", f"one `kid:secret` or several, comma-separated; {_HINT}"))
if SECRET_KEY in JWT_KEYS.values():
    env.refuse("JWT_KEYS contains SECRET_KEY: make another one, so that one leak is not two.")
# Django's deployment check requires 50 characters of these two.
_require_strength("SECRET_KEY", SECRET_KEY, least=50)
for _number, _secret in enumerate(SECRET_KEY_FALLBACKS, start=1):
    _require_strength(f"SECRET_KEY_FALLBACKS: secret {_number}", _secret, least=50)
for _number, _secret in enumerate(JWT_KEYS.values(), start=1):
    _require_strength(f"JWT_KEYS: secret {_number}", _secret, least=32)

SMS_BACKEND = env.one_of("SMS_BACKEND", ("sns", "webhook", "file"), "sns")
if SMS_BACKEND == "file":
    env.refuse("SMS_BACKEND must be sns or webhook: file prints login codes and is for a laptop.")
if SMS_BACKEND == "webhook":
    env.required("SMS_WEBHOOK_URL", "the https:// address that sends each message as an SMS")
    env.url("SMS_WEBHOOK_URL", ("https",))
    _require_strength("SMS_WEBHOOK_SECRET", env.required("SMS_WEBHOOK_SECRET", _HINT), least=32)
SMS_LIMIT_PER_COUNTRY = env.whole("SMS_LIMIT_PER_COUNTRY", 1000)
SMS_LIMIT_TOTAL = env.whole("SMS_LIMIT_TOTAL", 5000)
env.required("KAFKA_BOOTSTRAP_SERVERS", "the brokers as host:port, comma-separated")
env.required("REDIS_URL", "rediss://host:6379/0, or redis:// without TLS")
# Every process must see the same staff accounts, sessions and audit log.
if env.required("DATABASE_URL", "postgres://user:password@host:5432/name, for staff accounts").startswith("sqlite"):
    env.refuse("DATABASE_URL must not be SQLite: staff accounts and the audit log are shared by all processes.")
STAFF_TOTP = env.one_of("STAFF_TOTP", ("required", "optional"), "required")
edges.require_host_names(env, ALLOWED_HOSTS)
edges.require_trusted_proxies(env)
if ADMIN_PORT:
    ALLOWED_HOSTS += ["127.0.0.1", "localhost", "[::1]"]

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = env.text("SECURE_SSL_REDIRECT", "1") == "1"
# What operators read, on a port without TLS.
SECURE_REDIRECT_EXEMPT = [r"^(api/(schema|asyncapi|docs)|static/drf_spectacular_sidecar/.+)$"]
if ADMIN_PORT:
    SECURE_REDIRECT_EXEMPT += [r"^(admin/.*|static/(admin|staff)/.+)$"]
SECURE_HSTS_SECONDS = 31_536_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True

env.require_no_problem()
