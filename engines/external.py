"""Engines that somebody else runs, named by the environment."""

from collections.abc import Mapping

from engines.errors import EngineUnnamed

AWS = "AWS"


def describe_external(environment: Mapping[str, str]) -> dict[str, str]:
    """Where each engine is. Raises `EngineUnnamed`.

    Nothing is assumed: a default address, or AWS by default, might be somebody's production.
    """
    dynamodb = environment.get("DYNAMODB_ENDPOINT_URL") or _aws(environment)
    if not dynamodb:
        raise EngineUnnamed(
            "Where is DynamoDB? Set DYNAMODB_ENDPOINT_URL, or AWS_REGION for AWS itself; docs/engines.md tells more."
        )
    return {
        "dynamodb": dynamodb,
        "kafka": _require(environment, "KAFKA_BOOTSTRAP_SERVERS", "Kafka"),
        # A password may be part of the address.
        "redis": _require(environment, "REDIS_URL", "Redis").rpartition("@")[2],
    }


def _aws(environment: Mapping[str, str]) -> str:
    return f"{AWS} in {environment['AWS_REGION']}" if environment.get("AWS_REGION") else ""


def _require(environment: Mapping[str, str], name: str, engine: str) -> str:
    if value := environment.get(name):
        return value
    raise EngineUnnamed(f"Where is {engine}? Set {name}; docs/engines.md tells more.")
