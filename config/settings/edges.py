"""Who may talk to us and whose headers we believe: host names and proxies, checked at start-up."""

import ipaddress
import re
from collections.abc import Sequence

from config.settings.environment import Environment
from foundation.rest.origins import AllowedOrigins, MalformedOrigin

NO_PROXY = "none"
_HOST = re.compile(r"\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]", re.IGNORECASE)


def trusted_proxies(env: Environment) -> list[str]:
    """The networks of `TRUSTED_PROXIES`; `none` says that there are none."""
    if env.text("TRUSTED_PROXIES").strip().lower() == NO_PROXY:
        return []
    return [text for text in env.listed("TRUSTED_PROXIES") if _is_network(env, text)]


def allowed_origins(env: Environment) -> list[str]:
    """The patterns of `ALLOWED_ORIGINS`: `https://*.example.org`, `http://localhost:*`, or `*`."""
    return [text for text in env.listed("ALLOWED_ORIGINS") if _is_origin(env, text)]


def require_trusted_proxies(env: Environment) -> None:
    """Refuse to guess. Without the networks, all callers behind a load balancer share one caller's limits."""
    env.required(
        "TRUSTED_PROXIES",
        f"the networks of the load balancers, comma-separated, or `{NO_PROXY}` to trust nobody's X-Forwarded-For",
    )


def require_host_names(env: Environment, hosts: Sequence[str]) -> None:
    """Refuse a wildcard, and what is no host name and so would match nothing."""
    if not hosts:
        env.refuse("ALLOWED_HOSTS is not set: the host names that clients use, comma-separated.")
    for host in hosts:
        if "*" in host:
            env.refuse(f"ALLOWED_HOSTS has the wildcard {host!r}: name the host names that clients use.")
        elif not _HOST.fullmatch(host):
            env.refuse(f"ALLOWED_HOSTS has {host!r}, which is no host name: leave out scheme, port and path.")


def _is_origin(env: Environment, text: str) -> bool:
    try:
        AllowedOrigins([text])
    except MalformedOrigin:
        env.refuse(f"ALLOWED_ORIGINS has {text!r}, which is no origin: give scheme, host and perhaps a port.")
        return False
    return True


def _is_network(env: Environment, text: str) -> bool:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        env.refuse(f"TRUSTED_PROXIES has no network in {text!r}: {error}.")
        return False
    if network.prefixlen == 0:
        env.refuse(f"TRUSTED_PROXIES has {text!r}, which trusts everybody: name the networks of the load balancers.")
        return False
    return True
