"""What the deployment's templates are made from: the tables, and the access patterns of each kind of process."""

from typing import Any

# Access patterns register when their module is imported, and this one imports those of every app.
import config.wiring.staff  # noqa: F401
from config.wiring.commands import TABLES
from deploy.aws import data
from deploy.aws.policies import Access
from staff.services.access import FANOUT_PATTERNS, WATCH_PATTERNS, staff_patterns, web_patterns


def data_template() -> dict[str, Any]:
    access = Access(web=web_patterns(), fanout=FANOUT_PATTERNS, watch=WATCH_PATTERNS, staff=staff_patterns())
    return data.template(TABLES, access)
