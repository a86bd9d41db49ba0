"""The line that a process logs at its start."""

import pytest
from django.test import override_settings

from config.settings.environment import SettingsRefused
from config.start import describe, log_start


class TestStart:
    def test_one_line_has_the_engines_and_limits(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level("INFO"), override_settings(KAFKA_BOOTSTRAP_SERVERS="kafka.example:9092"):
            log_start("web")
        (line,) = caplog.messages
        assert line.startswith("web starts: revision ")
        assert "settings config.settings.test" in line
        assert "kafka kafka.example:9092" in line
        assert "SEND_RATE=100" in line
        assert "\n" not in line

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("rediss://user:hunter2@redis.example:6379/0", "rediss://redis.example:6379/0"),
            ("redis://:hunt@er2@redis.example", "redis://redis.example"),
            ("redis://redis.example/1?password=hunter2", "redis://redis.example/1"),
        ],
    )
    def test_credentials_are_left_out(self, url: str, shown: str) -> None:
        with override_settings(REDIS_URL=url, DYNAMODB_ENDPOINT_URL=None, AWS_REGION="eu-west-1"):
            assert describe()["redis"] == shown
            assert describe()["dynamodb"] == "https://dynamodb.eu-west-1.amazonaws.com (eu-west-1)"

    @pytest.mark.parametrize(
        ("variable", "value", "shown"),
        [
            ("AWS_ENDPOINT_URL_DYNAMODB", "http://user:hunter2@gw:8000/db/", "http://gw:8000/db/ (us-east-1)"),
            ("AWS_ENDPOINT_URL", "http://localstack:4566", "http://localstack:4566 (us-east-1)"),
            ("AWS_USE_FIPS_ENDPOINT", "true", "https://dynamodb-fips.us-east-1.amazonaws.com (us-east-1)"),
        ],
    )
    def test_dynamodb_is_where_the_variables_of_aws_say(
        self, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, shown: str
    ) -> None:
        monkeypatch.setenv(variable, value)
        with override_settings(DYNAMODB_ENDPOINT_URL=None, AWS_REGION="us-east-1"):
            assert describe()["dynamodb"] == shown

    def test_an_endpoint_that_is_no_url_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "localhost:8000")
        with override_settings(DYNAMODB_ENDPOINT_URL=None), pytest.raises(SettingsRefused, match="ENDPOINT_URL"):
            describe()
