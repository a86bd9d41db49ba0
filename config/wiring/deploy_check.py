"""What `check_deploy` looks at, as each kind of process."""

from collections.abc import Callable, Mapping

from django.conf import settings

# Access patterns register when their module is imported, and this one imports those of every app.
import config.wiring.staff  # noqa: F401
from config.wiring.commands import TABLES, clients
from staff.services.access import FANOUT_PATTERNS, WATCH_PATTERNS, staff_patterns, web_patterns
from staff.services.deploy_checks import Deployment, Role

ROLES: Mapping[str, Callable[[], Role]] = {
    "staff": lambda: Role(staff_patterns(), may_write=True, may_describe=True),
    "web": lambda: Role(web_patterns(), may_write=True),
    "fanout": lambda: Role(FANOUT_PATTERNS),
    "watch": lambda: Role(WATCH_PATTERNS),
}


def deployment(role: str) -> Deployment:
    used = clients()
    return Deployment(
        database=used.database,
        tables=TABLES,
        capacities=settings.TABLE_CAPACITY,
        event_log=used.event_log,
        redis=used.redis,
        clock=used.clock,
        is_embedded=settings.EMBEDDED,
        role=ROLES[role](),
    )
