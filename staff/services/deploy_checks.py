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
from foundation.stores.dynamodb import Database, schema
from foundation.stores.dynamodb.requests import raw_key
from foundation.stores.dynamodb.table import Table, key_names
from foundation.stores.errors import ConditionFailed, StoreRefused
from foundation.stores.kafka import EventLogAdmin
from foundation.stores.redis.client import naming_failures
from staff.findings import Finding, Report

CLOCK_TOLERANCE = timedelta(seconds=1)
SEVEN_DAYS = timedelta(days=7)
REPLICAS = 3
COULD_NOT_LOOK = "unavailable"
PROBE = "check_deploy#probe"
"""A key that no item has."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What the checks look at. `may_write`: whether this role is to write DynamoDB; the fanout's is not."""

    database: Database
    tables: Sequence[type[Table]]
    capacities: Mapping[str, Any]
    event_log: EventLogAdmin
    redis: Redis
    clock: Clock
    is_embedded: bool
    may_write: bool


def settings(deployment: Deployment) -> Iterator[Finding]:
    if deployment.is_embedded:
        yield Finding("settings", "These are the settings of a laptop: set DJANGO_SETTINGS_MODULE for production.")
        return
    for message in checks.run_checks(include_deployment_checks=True):
        if message.level >= checks.WARNING:
            yield Finding("settings", f"{message.msg} ({message.id})")


def tables(deployment: Deployment) -> Iterator[Finding]:
    for line in schema.drift(deployment.database, deployment.tables, capacities=deployment.capacities):
        yield Finding("schema", f"{line}.")


def permissions(deployment: Deployment) -> Iterator[Finding]:
    """Try a read and a write of each table, on a key that no item has, with a condition that never holds."""
    for model in deployment.tables:
        name = deployment.database.table_name(model)
        key = raw_key(model, [0 if attribute == "sequence" else PROBE for attribute in key_names(model)])
        if refusal := _refusal(deployment.database, "GetItem", {"TableName": name, "Key": key}):
            yield Finding("iam", f"This role may not read {name}: {refusal}")
        condition = f"attribute_exists({key_names(model)[0]})"
        request = {"TableName": name, "Key": key, "ConditionExpression": condition}
        refusal = _refusal(deployment.database, "DeleteItem", request)
        if refusal and deployment.may_write:
            yield Finding("iam", f"This role may not write {name}: {refusal}")
        if not refusal and not deployment.may_write:
            yield Finding("iam", f"This role may write {name}, and the fanout must not: take the right away.")


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
            findings.append(Finding(COULD_NOT_LOOK, f"{each.__name__}: {error.detail}."))
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
