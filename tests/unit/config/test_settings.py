"""Production starts with real values or not at all, and names everything that is wrong."""

import os
import secrets
import subprocess
import sys
from collections.abc import Callable

import pytest

SECRET = "Zk3vTq8wXy1bLr6mHc9pNd4sGf7jKa2uEo5iVt0xWzQhYBnM-Rl"
KEY = "u7Rz2mQx9Lb4Tc8Wn1Vk6Jp3Hd5Gs0Fa"
GOOD = {
    "DJANGO_SETTINGS_MODULE": "config.settings.production",
    "SECRET_KEY": SECRET,
    "JWT_KEYS": f"k1:{KEY},k2:{KEY[::-1]}",
    "ALLOWED_HOSTS": "chat.example,.internal.example,[::1]",
    "TRUSTED_PROXIES": "10.0.0.0/8",
    "KAFKA_BOOTSTRAP_SERVERS": "kafka.example:9092",
    "REDIS_URL": "redis://redis.example:6379/0",
    "DATABASE_URL": "postgres://staff:word@database.example:5432/staff",
}

IMPORT = """
from config.start import refusing_in_sentences
with refusing_in_sentences():
    import config.settings.production
"""


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "DATA_DIR") if name in os.environ}
    return subprocess.run(
        [sys.executable, *command],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run("manage.py", *arguments, **environment)


class TestProduction:
    def test_the_deployment_check_is_clean(self) -> None:
        result = manage("check", "--deploy", "--fail-level", "WARNING", **GOOD)
        assert (result.returncode, result.stderr) == (0, "")

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("SECRET_KEY", "short"),
            ("SECRET_KEY", "django-insecure-" + SECRET),
            ("SECRET_KEY", "x" * 60),
            ("SECRET_KEY", "pr0d-" * 12),
            ("SECRET_KEY_FALLBACKS", "changeme" * 8),
            ("JWT_KEYS", ""),
            ("JWT_KEYS", ","),
            ("JWT_KEYS", "k1:short"),
            ("JWT_KEYS", KEY),
            ("JWT_KEYS", f"k1:{'a1' * 20}"),
            ("JWT_KEYS", f"k1:{SECRET}"),
            ("JWT_KEYS", f"k1:{KEY},k1:{KEY[::-1]}"),
            ("ALLOWED_HOSTS", "*"),
            ("ALLOWED_HOSTS", "chat.example,.*"),
            ("ALLOWED_HOSTS", "https://chat.example"),
            ("ALLOWED_HOSTS", "."),
            ("TRUSTED_PROXIES", "10.0.0.1/8"),
            ("TRUSTED_PROXIES", "0.0.0.0/0"),
            ("TRUSTED_PROXIES", ","),
            ("ALLOWED_ORIGINS", "app.example"),
            ("ALLOWED_ORIGINS", "https://app.example/path"),
            ("KAFKA_BOOTSTRAP_SERVERS", ","),
            ("REDIS_URL", "redis.example:6379"),
            ("DYNAMODB_ENDPOINT_URL", "dynamodb.example"),
            ("DATABASE_URL", "postgres://[bad"),
            ("DATABASE_URL", "sqlite:////var/lib/parley/staff.sqlite3"),
            ("STAFF_TOTP", "never"),
            ("TABLE_CAPACITY", "users:40"),
            ("TABLE_CAPACITY", "people:40/10"),
            ("SMS_BACKEND", "file"),
            ("SMS_BACKEND", "pigeon"),
            ("SEND_RATE", "nan"),
            ("SEND_BURST", "-1"),
            ("SEND_RATE", "0"),
            ("WRITE_BURST", "0"),
            ("HTTP_REQUESTS", "1.5"),
            ("LOG_FORMAT", "xml"),
            ("LOG_LEVEL", "loud"),
            ("KAFKA_SECURITY_PROTOCOL", "TLS"),
        ],
    )
    def test_a_weak_or_malformed_value_is_one_sentence(self, name: str, value: str) -> None:
        result = run("-c", IMPORT, **{**GOOD, name: value})
        assert result.returncode == 2
        assert result.stderr.startswith(name)
        assert result.stderr.count("\n") == 1
        assert result.stderr.endswith(".\n")
        assert KEY not in result.stderr

    @pytest.mark.parametrize(
        "command",
        [
            ("manage.py", "check"),
            ("manage.py", "web"),
            ("manage.py", "fanout"),
            ("-c", "import config.asgi"),
            ("-m", "daphne", "config.asgi:application"),
        ],
    )
    def test_every_process_names_all_problems_at_once(self, command: tuple[str, ...]) -> None:
        result = run(*command, DJANGO_SETTINGS_MODULE="config.settings.production", SEND_RATE="fast")
        assert result.returncode == 2
        assert [line.split(" ")[0] for line in result.stderr.splitlines()] == [
            "SEND_RATE",
            "SECRET_KEY",
            "JWT_KEYS",
            "KAFKA_BOOTSTRAP_SERVERS",
            "REDIS_URL",
            "DATABASE_URL",
            "ALLOWED_HOSTS",
            "TRUSTED_PROXIES",
        ]

    @pytest.mark.parametrize("make", [secrets.token_hex, secrets.token_urlsafe])
    def test_what_the_sentence_says_to_run_makes_a_good_secret(self, make: Callable[[int], str]) -> None:
        values = {"SECRET_KEY": make(48), "JWT_KEYS": f"k1:{make(48)}"}
        assert run("-c", IMPORT, **{**GOOD, **values}).returncode == 0

    def test_no_proxy_is_said_explicitly(self) -> None:
        assert run("-c", IMPORT, **{**GOOD, "TRUSTED_PROXIES": "none"}).returncode == 0

    def test_another_server_without_settings_gets_those_of_production(self) -> None:
        result = run("-m", "daphne", "config.asgi:application")
        assert result.returncode == 2
        assert "SECRET_KEY is not set" in result.stderr


class TestEmbedded:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "", "chat.example"])
    def test_another_host_than_loopback_is_refused(self, host: str) -> None:
        result = manage("web", "--host", host, DJANGO_SETTINGS_MODULE="config.settings.embedded")
        assert result.returncode == 2
        assert "is not loopback" in result.stderr
        assert "--insecure" in result.stderr
        assert "Traceback" not in result.stderr
