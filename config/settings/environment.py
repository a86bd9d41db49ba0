"""Reading the environment, with errors that name the variable and say what to put there."""

import os

from django.core.exceptions import ImproperlyConfigured


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "") or default


def required(name: str, hint: str) -> str:
    if value := os.environ.get(name, ""):
        return value
    raise ImproperlyConfigured(f"{name} is not set: {hint}")


def listed(name: str, default: str = "") -> list[str]:
    return [part.strip() for part in text(name, default).split(",") if part.strip()]


def number(name: str, default: float) -> float:
    value = text(name)
    try:
        return float(value) if value else default
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must be a number, not {value!r}") from error


def whole(name: str, default: int) -> int:
    value = number(name, default)
    if value != int(value):
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value}")
    return int(value)


def key_ring(value: str) -> dict[str, str]:
    """`kid:secret,kid:secret`: the first signs, all verify, so that keys rotate without logging anyone out."""
    ring: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in value.split(","))):
        kid, _, secret = part.partition(":")
        if not kid or len(secret) < 32:
            raise ImproperlyConfigured("JWT_KEYS must be kid:secret pairs, comma-separated, secrets of 32+ characters")
        ring[kid] = secret
    return ring
