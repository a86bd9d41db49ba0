"""What would go wrong in this deployment, in sentences. Changes nothing.

Each check is a function that yields findings. One that cannot look raises `Unavailable`, which is a finding too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core import checks
from redis import Redis

from foundation.kernel.clock import Clock
from foundation.kernel.errors import ParleyError
from foundation.kernel.events import TOPICS
from foundation.stores.dynamodb import AccessPattern, Database, schema
from foundation.stores.dynamodb.table import Table
from foundation.stores.errors import ConditionFailed, StoreRefused
from foundation.stores.kafka import EventLogAdmin
from foundation.stores.redis.client import naming_failures
from staff.findings import Finding, Report
from staff.services.permission_probes import attempts, deletion

CLOCK_TOLERANCE = timedelta(seconds=1)
SEVEN_DAYS = timedelta(days=7)
REPLICAS = 3
UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Role:
    """What this role is for: it must be allowed `patterns`.

    `may_write`: it is to write DynamoDB, as the fanout's is not. `may_describe`: expiry and recovery of tables.
    """

    patterns: Sequence[AccessPattern[Any]]
    may_write: bool = False
    may_describe: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    """What the checks look at, as `role`."""

    database: Database
    tables: Sequence[type[Table]]
    capacities: Mapping[str, Any]
    event_log: EventLogAdmin
    redis: Redis
    clock: Clock
    is_embedded: bool
    role: Role


def settings(deployment: Deployment) -> Iterator[Finding]:
    if deployment.is_embedded:
        yield Finding("settings", "These are the settings of a laptop: set DJANGO_SETTINGS_MODULE for production.")
        return
    for message in checks.run_checks(include_deployment_checks=True):
        if message.level >= checks.WARNING:
            yield Finding("settings", f"{message.msg} ({message.id})")


def tables(deployment: Deployment) -> Iterator[Finding]:
    differences = schema.drift(
        deployment.database,
        deployment.tables,
        capacities=deployment.capacities,
        with_features=deployment.role.may_describe,
    )
    for line in differences:
        yield Finding("schema", f"{line}.")


def permissions(deployment: Deployment) -> Iterator[Finding]:
    """Try what the role is for, and that it may not write what it must not."""
    database, role = deployment.database, deployment.role
    for place, operation, request in attempts(database, role.patterns):
        if refusal := _refusal(database, operation, request):
            yield Finding("iam", f"This role may not {operation} on {place}: {refusal}")
    if role.may_write:
        return
    for model in deployment.tables:
        if not _refusal(database, "DeleteItem", deletion(database, model)):
            name = database.table_name(model)
            yield Finding("iam", f"This role may write {name}, and it must not: take the right away.")


def topics(deployment: Deployment) -> Iterator[Finding]:
    replicas = deployment.event_log.replicas()
    for name in sorted(set(TOPICS)):
        if name not in replicas:
            yield Finding("topics", f"The topic {name} does not exist: run `manage.py create_topics`.")
            continue
        if deployment.is_embedded:
            continue
        if min(replicas[name]) < REPLICAS:
            yield Finding("topics", f"{name} has {min(replicas[name])} replicas: three survive the loss of one.")
        found = deployment.event_log.settings(name)
        if deployment.event_log.retention(name) < SEVEN_DAYS:
            yield Finding("topics", f"{name} keeps events for less than seven days: set retention.ms.")
        if int(found.get("min.insync.replicas", 1)) < REPLICAS - 1:
            yield Finding("topics", f"{name} acknowledges with one replica: set min.insync.replicas to 2.")


def redis_mode(deployment: Deployment) -> Iterator[Finding]:
    with naming_failures():
        found: dict[str, Any] = deployment.redis.info()
    if found.get("cluster_enabled"):
        yield Finding("redis", "Redis runs in cluster mode: routing reads several keys in one command. Turn it off.")
    if found.get("role") not in {"master", None}:
        yield Finding("redis", "REDIS_URL leads to a replica, which takes no writes: use the primary's address.")
    if found.get("maxmemory") and found.get("maxmemory_policy") == "noeviction" and not deployment.is_embedded:
        used = int(found.get("used_memory", 0)) / int(found["maxmemory"])
        if used > 0.8:
            yield Finding("redis", f"Redis has used {used:.0%} of its memory and refuses writes at 100 %.")


def clocks(deployment: Deployment) -> Iterator[Finding]:
    with naming_failures():
        seconds, microseconds = deployment.redis.time()
    now = deployment.clock.now()
    theirs = datetime.fromtimestamp(seconds + microseconds / 1e6, tz=now.tzinfo)
    if abs(theirs - now) > CLOCK_TOLERANCE:
        difference = (now - theirs).total_seconds()
        yield Finding("clocks", f"This machine's clock is {difference:+.1f} s from that of Redis: synchronise both.")


CHECKS: tuple[Callable[[Deployment], Iterable[Finding]], ...] = (
    settings,
    tables,
    permissions,
    topics,
    redis_mode,
    clocks,
)


def check(deployment: Deployment) -> Report:
    findings: list[Finding] = []
    for each in CHECKS:
        try:
            findings += each(deployment)
        except ParleyError as error:
            findings.append(Finding(UNAVAILABLE, f"{each.__name__}: {error.detail}."))
    return Report(findings, len(CHECKS))


def _refusal(database: Database, operation: str, request: dict[str, Any]) -> str | None:
    """Why DynamoDB refuses the request; None where it allows it."""
    try:
        database.call(operation, request)
    except ConditionFailed:
        return None
    except StoreRefused as error:
        return error.detail
    return None
