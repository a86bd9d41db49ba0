"""Settings shared by all environments. The variables are described in docs/configuration.md."""

from pathlib import Path
from typing import Any

from config.settings import capacity, edges, kafka
from config.settings.environment import env

BASE_DIR = Path(__file__).resolve().parent.parent.parent
DATA_DIR = Path(env.text("DATA_DIR", str(BASE_DIR / ".parley")))
EMBEDDED = False
DEBUG = False

# Engines
AWS_REGION = env.text("AWS_REGION", "us-east-1")
DYNAMODB_ENDPOINT_URL = env.url("DYNAMODB_ENDPOINT_URL", ("http", "https")) or None
TABLE_PREFIX = env.text("TABLE_PREFIX")
TABLE_CAPACITY = capacity.table_capacity(env)
STORE_CONNECTIONS = env.whole("STORE_CONNECTIONS", 160)
KAFKA_BOOTSTRAP_SERVERS = env.text("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092")
KAFKA_SECURITY = kafka.security(env)
KAFKA_FETCH_WAIT_MS = env.whole("KAFKA_FETCH_WAIT_MS", 500)
KAFKA_SESSION_TIMEOUT_MS = env.whole("KAFKA_SESSION_TIMEOUT_MS", 10_000)
REDIS_URL = env.url("REDIS_URL", ("redis", "rediss", "unix"), "redis://127.0.0.1:6379/0")
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "foundation.stores.redis.channel_layer.ObservedChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL]},
    }
}

# Edges
ALLOWED_HOSTS = env.listed("ALLOWED_HOSTS")
ALLOWED_ORIGINS = edges.allowed_origins(env)
TRUSTED_PROXIES = edges.trusted_proxies(env)
SECRET_KEY_FALLBACKS = env.listed("SECRET_KEY_FALLBACKS")
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
APPEND_SLASH = False
SEND_RATE, SEND_BURST = env.limit("SEND", rate=100, burst=500)
READ_RATE, READ_BURST = env.limit("READ", rate=2000, burst=5000)
WRITE_RATE, WRITE_BURST = env.limit("WRITE", rate=500, burst=5000)
INVITE_RATE, INVITE_BURST = env.limit("INVITE", rate=2, burst=5000)
PUBLIC_RATE, PUBLIC_BURST = env.limit("PUBLIC", rate=100, burst=5000)
SMS_WEBHOOK_URL = env.url("SMS_WEBHOOK_URL", ("https", "http"))
SMS_WEBHOOK_SECRET = env.text("SMS_WEBHOOK_SECRET")
SMS_LIMIT_PER_COUNTRY = env.whole("SMS_LIMIT_PER_COUNTRY", 0)
SMS_LIMIT_TOTAL = env.whole("SMS_LIMIT_TOTAL", 0)
TOKEN_GRACE = env.number("TOKEN_GRACE", 60)
MAX_CONNECTIONS_PER_USER = env.whole("MAX_CONNECTIONS_PER_USER", 200)
CONNECT_RATE, CONNECT_BURST = env.limit("CONNECT", rate=10, burst=2000)
FAST_SOCKETS = env.text("FAST_SOCKETS", "1") != "0"
HTTP_REQUESTS = env.whole("HTTP_REQUESTS", 200)
HTTP_REQUESTS_PER_USER = env.whole("HTTP_REQUESTS_PER_USER", 4)
HTTP_REQUESTS_PER_ADDRESS = env.whole("HTTP_REQUESTS_PER_ADDRESS", 16)
MAX_BODY_BYTES = 256 * 1024
HTTP_BODY_BYTES = env.whole("HTTP_BODY_BYTES", 64 * 1024 * 1024)
MAX_CONNECTIONS_PER_ADDRESS = env.whole("MAX_CONNECTIONS_PER_ADDRESS", 1_000)
REQUEST_TIMEOUT = env.number("REQUEST_TIMEOUT", 30)
RESPONSE_TIMEOUT = env.number("RESPONSE_TIMEOUT", 30)
ADMIN_HOST = env.text("ADMIN_HOST", "127.0.0.1")
ADMIN_PORT = env.whole("ADMIN_PORT", 0) or None

INSTALLED_APPS = [
    # First: its commands `createsuperuser` and `changepassword` are used in place of Django's.
    "config.apps.ParleyConfig",
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_otp",
    "django_otp.plugins.otp_totp",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "accounts.apps.AccountsConfig",
    "chats.apps.ChatsConfig",
    "messaging.apps.MessagingConfig",
    "delivery.apps.DeliveryConfig",
    "staff.apps.StaffConfig",
]
# Of the admin pages alone: `config/asgi.py` serves everything else without any.
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "staff.pages.middleware.StaffPages",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_otp.middleware.OTPMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
STAFF_TOTP = env.one_of("STAFF_TOTP", ("required", "optional"), "optional")
ERASED_MESSAGES = env.one_of("ERASED_MESSAGES", ("keep", "redact"), "keep")
OTP_TOTP_ISSUER = "Parley"
SESSION_COOKIE_NAME = "parley_staff"
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = "/admin/"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Strict"
SESSION_COOKIE_AGE = 8 * 3600
SESSION_EXPIRE_AT_BROWSER_CLOSE = True
CSRF_COOKIE_NAME = "parley_staff_csrf"
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "staff.pages.site.show_expired_form"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
STATIC_URL = "/static/"
WEB_CLIENT = BASE_DIR / "clients" / "web" / "static"
STATICFILES_DIRS = [("parley", WEB_CLIENT)]
STATIC_ROOT = BASE_DIR / "static"

# Django's own database: staff accounts, their sessions and the audit log, never chat state.
DATABASES = {"default": env.database("DATABASE_URL", f"sqlite:///{DATA_DIR / 'staff.sqlite3'}")}
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_RENDERER_CLASSES": ["foundation.rest.json.JsonRenderer"],
    "DEFAULT_PARSER_CLASSES": ["foundation.rest.json.JsonParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": ["foundation.rest.authentication.CallerIsKnown"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "foundation.rest.problems.handle",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Parley",
    "DESCRIPTION": "A messaging backend: dense sequences, safe retries, acknowledged means durable.",
    "VERSION": "1",
    "COMPONENT_SPLIT_REQUEST": True,
    "COMPONENT_SPLIT_PATCH": False,
    "ENUM_NAME_OVERRIDES": {"RoleEnum": ["owner", "admin", "member"]},
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "foundation.rest.schema.complete",
    ],
}

USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LOG_FORMAT = env.one_of("LOG_FORMAT", ("text", "json"), "text")
LOG_LEVEL = env.one_of("LOG_LEVEL", ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), "INFO")
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"},
        "json": {"()": "foundation.kernel.logs.JsonFormatter"},
    },
    "filters": {
        "request": {"()": "foundation.kernel.logs.WithRequestId"},
        "unforeseen": {"()": "foundation.kernel.logs.OnlyUnforeseen"},
        "redis": {"()": "foundation.stores.redis.logs.RedisAwayInOneLine"},
        "repeats": {"()": "foundation.kernel.logs.RepeatLimit"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": LOG_FORMAT,
            "filters": ["request", "unforeseen", "redis", "repeats"],
        }
    },
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        "django": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        "botocore": {"level": "WARNING"},
        "pynamodb": {"level": "WARNING"},
        "daphne": {"level": "WARNING"},
    },
}
