"""Where a run on engines of others finds them."""

import pytest

from engines.errors import EngineNotConfigured
from engines.external import describe_external

OTHERS = {"KAFKA_BOOTSTRAP_SERVERS": "kafka:9092", "REDIS_URL": "redis://:secret@redis:6379/0"}


class TestDynamoDB:
    @pytest.mark.parametrize("name", ["DYNAMODB_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"])
    def test_an_endpoint_comes_before_the_region(self, name: str) -> None:
        environment = {**OTHERS, name: "http://localhost:8000", "AWS_REGION": "eu-west-1"}
        assert describe_external(environment)["dynamodb"] == "http://localhost:8000"

    def test_a_region_alone_is_aws(self) -> None:
        assert describe_external({**OTHERS, "AWS_REGION": "eu-west-1"})["dynamodb"] == "AWS in eu-west-1"

    def test_neither_is_refused(self) -> None:
        with pytest.raises(EngineNotConfigured, match="Where is DynamoDB"):
            describe_external(OTHERS)
