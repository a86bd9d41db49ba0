"""Settings for production. Refuse to start with a missing or well-known secret."""

from django.core.exceptions import ImproperlyConfigured

from config.settings import environment as env
from config.settings.base import *  # noqa: F403
from config.settings.base import ADMIN_PORT

_HINT = "make one with `python -c 'import secrets; print(secrets.token_urlsafe(48))'`"

SECRET_KEY = env.required("SECRET_KEY", _HINT)
if len(SECRET_KEY) < 50 or SECRET_KEY.startswith(("django-insecure", "test-only")):
    raise ImproperlyConfigured(f"SECRET_KEY is too short or a well-known one: {_HINT}")
JWT_KEYS = env.key_ring(env.required("JWT_KEYS", f"one `kid:secret` or several, comma-separated; {_HINT}"))
if SECRET_KEY in JWT_KEYS.values() or any(secret.startswith("test-only") for secret in JWT_KEYS.values()):
    raise ImproperlyConfigured(f"JWT_KEYS holds SECRET_KEY or a well-known secret: {_HINT}")
SMS_BACKEND = env.text("SMS_BACKEND", "sns")
if SMS_BACKEND == "file":
    raise ImproperlyConfigured("SMS_BACKEND=file prints login codes: it is for a laptop; use sns")
SMS_LIMIT_PER_COUNTRY = env.whole("SMS_LIMIT_PER_COUNTRY", 1000)
SMS_LIMIT_TOTAL = env.whole("SMS_LIMIT_TOTAL", 5000)
if not (ALLOWED_HOSTS := env.listed("ALLOWED_HOSTS")):
    raise ImproperlyConfigured("ALLOWED_HOSTS is not set: the host names that clients use, comma-separated")
if ADMIN_PORT:
    ALLOWED_HOSTS += ["127.0.0.1", "localhost", "[::1]"]

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = env.text("SECURE_SSL_REDIRECT", "1") == "1"
# What operators read, on a port without TLS.
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics|api/schema|api/docs|static/drf_spectacular_sidecar/.+)$"]
SECURE_HSTS_SECONDS = 31_536_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
