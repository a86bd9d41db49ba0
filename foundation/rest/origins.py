"""Which browser origins may use the API: the patterns of `ALLOWED_ORIGINS`, for REST (CORS) and WebSockets alike."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

_ANY = "*"
_ORIGIN = re.compile(r"([a-z*][a-z0-9+.*-]*)://(\[[0-9a-f:.]+\]|[a-z0-9._*-]+)(?::([0-9]{1,5}|\*))?", re.ASCII)
_CACHED = 1024
DEFAULT_PORTS = {"http": "80", "https": "443"}
NULL_ORIGIN = "null"
"""The origin of a sandboxed page or a file."""


class MalformedOrigin(ValueError):
    """The text is no origin: scheme, host and perhaps a port."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A browser's origin, or a pattern: `*` in the host stands for any characters, as the port for any port."""

    scheme: str
    host: str
    port: str

    @classmethod
    def parse(cls, text: str) -> "Origin":
        """Raises `MalformedOrigin`."""
        found = _ORIGIN.fullmatch(text.lower())
        if found is None:
            raise MalformedOrigin("the origin is malformed")
        scheme, host, port = found.groups()
        return cls(scheme, host, port or DEFAULT_PORTS.get(scheme, ""))

    def matches(self, pattern: "Origin") -> bool:
        return (
            fnmatchcase(self.scheme, pattern.scheme)
            and fnmatchcase(self.host, pattern.host.replace("[", "[[]"))
            and pattern.port in (_ANY, self.port)
        )


class AllowedOrigins:
    """Patterns of origins. `*` alone allows every origin, also `null`."""

    def __init__(self, patterns: Iterable[str]) -> None:
        texts = list(patterns)
        self._allows_all = _ANY in texts
        self._patterns = [Origin.parse(text) for text in texts if text != _ANY]
        self.allow = lru_cache(_CACHED)(self._allow)

    def _allow(self, text: str) -> bool:
        """Raises `MalformedOrigin`."""
        if text == NULL_ORIGIN:
            return self._allows_all
        origin = Origin.parse(text)
        return self._allows_all or any(origin.matches(pattern) for pattern in self._patterns)
