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
from foundation.kernel.events import MESSAGES_PERSISTED, Event
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import EventConsumer, EventLogAdmin, EventProducer, KafkaOptions, Outgoing
from tests.doubles import eventually
from tests.real.certificates import Authority, Identity
from tests.real.secure_kafka import PASSWORD, USERNAME, SecureKafka

WAYS = ["tls", "mutual", "scram", "plain"]


class Door:
    """The broker, and what a client's environment must say to be let in."""

    def __init__(self, broker: SecureKafka, authority: Authority, client: Identity) -> None:
        trust = {"KAFKA_SSL_CA_LOCATION": str(authority.certificate)}
        tls = {"KAFKA_SECURITY_PROTOCOL": "SSL", **trust}
        login = {
            "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "KAFKA_SASL_USERNAME": USERNAME,
            "KAFKA_SASL_PASSWORD": PASSWORD,
            **trust,
        }
        self.ways = {
            "tls": self._at(broker.address("TLS"), tls),
            "mutual": self._at(
                broker.address("MUTUAL"),
                {
                    **tls,
                    "KAFKA_SSL_CERTIFICATE_LOCATION": str(client.certificate),
                    "KAFKA_SSL_KEY_LOCATION": str(client.key),
                },
            ),
            "scram": self._at(broker.address("LOGIN"), login),
            "plain": self._at(broker.address("LOGIN"), {**login, "KAFKA_SASL_MECHANISM": "PLAIN"}),
            "token": self._at(
                broker.address("TOKEN"),
                {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "AWS_MSK_IAM", **trust},
            ),
        }

    def _at(self, servers: str, environment: dict[str, str]) -> dict[str, str]:
        return {"KAFKA_BOOTSTRAP_SERVERS": servers, **environment}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    directory = tmp_path_factory.mktemp("certificates")
    authority = Authority(directory)
    broker = SecureKafka(authority, directory)
    with broker:
        yield Door(broker, authority, authority.issue("client"))


def options(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> KafkaOptions:
    """What a process with this environment would use."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    servers = environment["KAFKA_BOOTSTRAP_SERVERS"]
    return KafkaOptions(bootstrap_servers=servers, publish_timeout=20.0, extra=kafka.security())


def publish(options: KafkaOptions, key: str, *, timeout: float) -> None:
    producer = EventProducer(options)
    event = Event("MessagePersisted", f"evt_{key}", datetime.now(UTC), key, {"sequence": 1})
    try:
        producer.publish([Outgoing(event)], timeout=timeout)
    finally:
        producer.close(timeout=0.1)


def is_readable(options: KafkaOptions, key: str) -> None:
    consumer = EventConsumer(options, group=f"group-{key}", topics=[MESSAGES_PERSISTED])
    try:
        eventually(lambda: any(record.key == key for record in consumer.read(timeout=0.2)), within=20)
    finally:
        consumer.close()


class TestBeingLetIn:
    @pytest.mark.parametrize("way", WAYS)
    def test_events_go_in_and_come_out(self, door: Door, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
        let_in, key = options(monkeypatch, door.ways[way]), f"{way}-{uuid.uuid4()}"
        EventLogAdmin(let_in).ping(timeout=10)
        publish(let_in, key, timeout=20)
        is_readable(let_in, key)

    @pytest.mark.parametrize("way", WAYS)
    def test_the_commands_need_the_environment_only(self, door: Door, way: str) -> None:
        result = subprocess.run(
            [sys.executable, "manage.py", "create_topics"],
            env={**os.environ, **door.ways[way]},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.stdout.strip() == "every topic exists"


class TestTokens:
    """The way of MSK's IAM login: the client asks us for a token; here the broker is content with an unsigned one."""

    def test_events_go_in_and_come_out(self, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
        def sign(_configuration: str) -> tuple[str, float]:
            end = time.time() + 900
            claims = {"sub": "parley", "iat": time.time() - 5, "exp": end}
            parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
            return ".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), ""]), end

        let_in, key = options(monkeypatch, door.ways["token"]), f"token-{uuid.uuid4()}"
        let_in = replace(let_in, extra={**let_in.extra, "oauth_cb": sign})
        EventLogAdmin(let_in).ping(timeout=10)
        publish(let_in, key, timeout=20)
        is_readable(let_in, key)


class TestBeingTurnedAway:
    """Each time as an engine that is away: one sentence and no hang."""

    def turned_away(self, options: KafkaOptions) -> None:
        with pytest.raises(EventLogUnavailable):
            EventLogAdmin(options).ping(timeout=2)
        with pytest.raises(EventLogUnavailable):
            publish(options, "never", timeout=1)

    def test_a_server_that_nobody_we_trust_vouches_for(
        self, door: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        stranger = Authority(tmp_path, name="stranger")
        way = {**door.ways["tls"], "KAFKA_SSL_CA_LOCATION": str(stranger.certificate)}
        self.turned_away(options(monkeypatch, way))

    def test_a_client_without_a_certificate(self, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
        way = {**door.ways["tls"], "KAFKA_BOOTSTRAP_SERVERS": door.ways["mutual"]["KAFKA_BOOTSTRAP_SERVERS"]}
        self.turned_away(options(monkeypatch, way))

    @pytest.mark.parametrize("way", ["scram", "plain"])
    def test_a_wrong_password(self, door: Door, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
        self.turned_away(options(monkeypatch, {**door.ways[way], "KAFKA_SASL_PASSWORD": "a guess"}))

    def test_a_client_that_does_not_encrypt(self, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
        servers = {"KAFKA_BOOTSTRAP_SERVERS": door.ways["tls"]["KAFKA_BOOTSTRAP_SERVERS"]}
        self.turned_away(options(monkeypatch, servers))
