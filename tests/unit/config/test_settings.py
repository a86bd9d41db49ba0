"""Production starts with real secrets or not at all."""

import os
import subprocess
import sys

import pytest

from config.settings.environment import key_ring

SECRET = "s3cret-" * 8
GOOD = {
    "DJANGO_SETTINGS_MODULE": "config.settings.production",
    "SECRET_KEY": SECRET,
    "JWT_KEYS": f"k1:{'a1' * 20},k2:{'b2' * 20}",
    "ALLOWED_HOSTS": "chat.example",
}


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "DATA_DIR") if name in os.environ}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class TestProduction:
    def test_the_deployment_check_is_clean(self) -> None:
        result = manage("check", "--deploy", "--fail-level", "WARNING", **GOOD)
        assert (result.returncode, result.stderr) == (0, "")

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("SECRET_KEY", ""),
            ("SECRET_KEY", "short"),
            ("SECRET_KEY", "django-insecure-" + "x" * 60),
            ("JWT_KEYS", ""),
            ("JWT_KEYS", "k1:short"),
            ("JWT_KEYS", f"k1:{SECRET}"),
            ("ALLOWED_HOSTS", ""),
            ("SMS_BACKEND", "file"),
        ],
    )
    def test_a_missing_or_weak_setting_is_named(self, name: str, value: str) -> None:
        result = manage("check", **{**GOOD, name: value})
        assert result.returncode != 0
        assert f"ImproperlyConfigured: {name}" in result.stderr


class TestKeyRing:
    def test_the_first_key_comes_first(self) -> None:
        ring = key_ring(f"new:{'n' * 32}, old:{'o' * 32}")
        assert list(ring.items()) == [("new", "n" * 32), ("old", "o" * 32)]
