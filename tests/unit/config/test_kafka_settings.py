"""How Kafka lets us in: what the environment says becomes librdkafka's options, and half a configuration is refused."""

import pytest

from config.settings import kafka
from config.settings.environment import Environment, SettingsRefused

LOGIN = {"KAFKA_SASL_USERNAME": "parley", "KAFKA_SASL_PASSWORD": "secret"}


def security(**variables: str) -> dict[str, str]:
    env = Environment(variables)
    options = kafka.security(env)
    env.require_no_problem()
    return options


class TestSecurity:
    def test_nothing_said_is_plain_text(self) -> None:
        assert security() == {"security.protocol": "PLAINTEXT"}

    def test_tls_takes_the_authority_and_the_clients_certificate(self) -> None:
        files = {
            "KAFKA_SSL_CA_LOCATION": "ca.pem",
            "KAFKA_SSL_CERTIFICATE_LOCATION": "client.pem",
            "KAFKA_SSL_KEY_LOCATION": "client.key",
        }
        assert security(KAFKA_SECURITY_PROTOCOL="ssl", **files) == {
            "security.protocol": "SSL",
            "ssl.ca.location": "ca.pem",
            "ssl.certificate.location": "client.pem",
            "ssl.key.location": "client.key",
        }

    def test_a_login_is_by_scram_unless_said_otherwise(self) -> None:
        options = security(KAFKA_SECURITY_PROTOCOL="SASL_SSL", **LOGIN)
        assert options == {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "parley",
            "sasl.password": "secret",
        }

    def test_iam_needs_no_password(self) -> None:
        login = {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "AWS_MSK_IAM"}
        options = security(**login)
        assert options == {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
        assert kafka.uses_iam(options)

    @pytest.mark.parametrize(
        ("environment", "named"),
        [
            ({"KAFKA_SECURITY_PROTOCOL": "TLS"}, "KAFKA_SECURITY_PROTOCOL"),
            ({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL"}, "KAFKA_SASL_USERNAME"),
            ({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_USERNAME": "parley"}, "KAFKA_SASL_PASSWORD"),
            ({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "MD5", **LOGIN}, "KAFKA_SASL_MECHANISM"),
            ({"KAFKA_SECURITY_PROTOCOL": "SSL", **LOGIN}, "KAFKA_SASL_USERNAME"),
            ({"KAFKA_SASL_PASSWORD": "secret"}, "KAFKA_SASL_PASSWORD"),
            (
                {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "AWS_MSK_IAM", **LOGIN},
                "KAFKA_SASL_USERNAME",
            ),
            ({"KAFKA_SSL_CA_LOCATION": "ca.pem"}, "KAFKA_SSL_CA_LOCATION"),
        ],
    )
    def test_half_a_configuration_is_refused_by_name(self, environment: dict[str, str], named: str) -> None:
        with pytest.raises(SettingsRefused, match=f"^{named} "):
            security(**environment)
