"""The line that a process logs at its start."""

import pytest
from django.test import override_settings

from config.management.commands.web import listens_on_loopback
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
            assert describe()["dynamodb"] == "AWS in eu-west-1"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_is_recognised(host: str) -> None:
    assert listens_on_loopback(host)
