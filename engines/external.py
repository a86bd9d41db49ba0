"""Engines that the run does not start. The environment says where they are."""

from collections.abc import Mapping

from engines.errors import EngineNotConfigured

# As Parley and botocore look for it.
DYNAMODB_ENDPOINTS = ("DYNAMODB_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL")


def describe_external(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the address of each engine. Raises `EngineNotConfigured`.

    There are no defaults, not even AWS: a default could be a production system.
    """
    dynamodb = next(filter(None, map(environment.get, DYNAMODB_ENDPOINTS)), None)
    if not dynamodb and (region := environment.get("AWS_REGION")):
        dynamodb = f"AWS in {region}"
    if not dynamodb:
        raise EngineNotConfigured(
            "Where is DynamoDB? Set DYNAMODB_ENDPOINT_URL, or AWS_REGION for AWS itself; see docs/engines.md."
        )
    return {
        "dynamodb": dynamodb,
        "kafka": _require(environment, "KAFKA_BOOTSTRAP_SERVERS", "Kafka"),
        # The part before the @ may hold a password.
        "redis": _require(environment, "REDIS_URL", "Redis").rpartition("@")[2],
    }


def _require(environment: Mapping[str, str], name: str, engine: str) -> str:
    if value := environment.get(name):
        return value
    raise EngineNotConfigured(f"Where is {engine}? Set {name}; see docs/engines.md.")
