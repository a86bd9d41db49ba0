"""TLS and SASL, from the environment's variables to events in the log, against a broker with a certificate of ours."""

import base64
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from config.settings import kafka
from config.settings.environment import Environment
from foundation.kernel.events import MESSAGES_PERSISTED, Event
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import EventConsumer, EventLogAdmin, EventProducer, KafkaOptions, Outgoing
from tests.doubles import eventually
from tests.real.certificates import Authority, Identity
from tests.real.secure_kafka import PASSWORD, USERNAME, SecureKafka

LOGINS = ["tls", "mutual", "scram", "plain"]


class Logins:
    """The environment of a client for each way to log in."""

    def __init__(self, broker: SecureKafka, authority: Authority, client: Identity) -> None:
        trust = {"KAFKA_SSL_CA_LOCATION": str(authority.certificate)}
        tls = {"KAFKA_SECURITY_PROTOCOL": "SSL", **trust}
        sasl = {
            "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "KAFKA_SASL_USERNAME": USERNAME,
            "KAFKA_SASL_PASSWORD": PASSWORD,
            **trust,
        }
        self.environments = {
            "tls": self._at(broker.address("TLS"), tls),
            "mutual": self._at(
                broker.address("MUTUAL"),
                {
                    **tls,
                    "KAFKA_SSL_CERTIFICATE_LOCATION": str(client.certificate),
                    "KAFKA_SSL_KEY_LOCATION": str(client.key),
                },
            ),
            "scram": self._at(broker.address("LOGIN"), sasl),
            "plain": self._at(broker.address("LOGIN"), {**sasl, "KAFKA_SASL_MECHANISM": "PLAIN"}),
            "token": self._at(
                broker.address("TOKEN"),
                {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "AWS_MSK_IAM", **trust},
            ),
        }

    def _at(self, servers: str, environment: dict[str, str]) -> dict[str, str]:
        return {"KAFKA_BOOTSTRAP_SERVERS": servers, **environment}


@pytest.fixture(scope="module")
def logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logins]:
    directory = tmp_path_factory.mktemp("certificates")
    authority = Authority(directory)
    broker = SecureKafka(authority, directory)
    with broker:
        yield Logins(broker, authority, authority.issue("client"))


def options(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> KafkaOptions:
    """The options of a process with this environment."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    servers = environment["KAFKA_BOOTSTRAP_SERVERS"]
    return KafkaOptions(bootstrap_servers=servers, publish_timeout=20.0, extra=kafka.security(Environment(os.environ)))


def publish(options: KafkaOptions, key: str, *, timeout: float) -> None:
    producer = EventProducer(options)
    event = Event("MessagePersisted", f"evt_{key}", datetime.now(UTC), key, {"sequence": 1})
    try:
        producer.publish_and_wait([Outgoing(event)], timeout=timeout)
    finally:
        producer.close(timeout=0.1)


def is_readable(options: KafkaOptions, key: str) -> None:
    consumer = EventConsumer(options, group=f"group-{key}", topics=[MESSAGES_PERSISTED])
    try:
        eventually(lambda: any(record.key == key for record in consumer.read(timeout=0.2)), within=20)
    finally:
        consumer.close()


class TestAccepted:
    @pytest.mark.parametrize("login", LOGINS)
    def test_events_go_in_and_come_out(self, logins: Logins, monkeypatch: pytest.MonkeyPatch, login: str) -> None:
        accepted, key = options(monkeypatch, logins.environments[login]), f"{login}-{uuid.uuid4()}"
        EventLogAdmin(accepted).require_topics(timeout=10)
        publish(accepted, key, timeout=20)
        is_readable(accepted, key)

    @pytest.mark.parametrize("login", LOGINS)
    def test_the_commands_need_the_environment_only(self, logins: Logins, login: str) -> None:
        result = subprocess.run(
            [sys.executable, "manage.py", "create_topics"],
            env={**os.environ, **logins.environments[login]},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.stdout.strip() == "every topic exists"


class TestTokens:
    """As with MSK's IAM login, librdkafka asks us for a token; this broker accepts an unsigned one."""

    def test_events_go_in_and_come_out(self, logins: Logins, monkeypatch: pytest.MonkeyPatch) -> None:
        def sign(_configuration: str) -> tuple[str, float]:
            end = time.time() + 900
            claims = {"sub": "parley", "iat": time.time() - 5, "exp": end}
            parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
            return ".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), ""]), end

        accepted, key = options(monkeypatch, logins.environments["token"]), f"token-{uuid.uuid4()}"
        accepted = replace(accepted, extra={**accepted.extra, "oauth_cb": sign})
        EventLogAdmin(accepted).require_topics(timeout=10)
        publish(accepted, key, timeout=20)
        is_readable(accepted, key)


class TestRefused:
    """Each is the same error as a broker that is away, within the timeout."""

    def is_refused(self, options: KafkaOptions) -> None:
        with pytest.raises(EventLogUnavailable):
            EventLogAdmin(options).require_topics(timeout=2)
        with pytest.raises(EventLogUnavailable):
            publish(options, "never", timeout=1)

    def test_a_server_with_a_certificate_of_an_unknown_authority(
        self, logins: Logins, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        stranger = Authority(tmp_path, name="stranger")
        environment = {**logins.environments["tls"], "KAFKA_SSL_CA_LOCATION": str(stranger.certificate)}
        self.is_refused(options(monkeypatch, environment))

    def test_a_client_without_a_certificate(self, logins: Logins, monkeypatch: pytest.MonkeyPatch) -> None:
        environment = {
            **logins.environments["tls"],
            "KAFKA_BOOTSTRAP_SERVERS": logins.environments["mutual"]["KAFKA_BOOTSTRAP_SERVERS"],
        }
        self.is_refused(options(monkeypatch, environment))

    @pytest.mark.parametrize("login", ["scram", "plain"])
    def test_a_wrong_password(self, logins: Logins, monkeypatch: pytest.MonkeyPatch, login: str) -> None:
        self.is_refused(options(monkeypatch, {**logins.environments[login], "KAFKA_SASL_PASSWORD": "a guess"}))

    def test_a_client_that_does_not_encrypt(self, logins: Logins, monkeypatch: pytest.MonkeyPatch) -> None:
        servers = {"KAFKA_BOOTSTRAP_SERVERS": logins.environments["tls"]["KAFKA_BOOTSTRAP_SERVERS"]}
        self.is_refused(options(monkeypatch, servers))
