"""How to be let in by Kafka: TLS, SASL or neither, in librdkafka's words, checked before the first connection."""

from collections.abc import Iterable
from typing import Any

from config.settings.environment import Environment

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
IAM = "AWS_MSK_IAM"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", IAM)
TLS = {
    "KAFKA_SSL_CA_LOCATION": "ssl.ca.location",
    "KAFKA_SSL_CERTIFICATE_LOCATION": "ssl.certificate.location",
    "KAFKA_SSL_KEY_LOCATION": "ssl.key.location",
    "KAFKA_SSL_KEY_PASSWORD": "ssl.key.password",
}
CREDENTIALS = {"KAFKA_SASL_USERNAME": "sasl.username", "KAFKA_SASL_PASSWORD": "sasl.password"}


def security(env: Environment) -> dict[str, Any]:
    """The client options of `KAFKA_SECURITY_PROTOCOL` and its companions.

    A companion that the protocol would ignore is refused: it would give a false sense of security.
    """
    protocol = env.one_of("KAFKA_SECURITY_PROTOCOL", PROTOCOLS, "PLAINTEXT")
    options: dict[str, Any] = {"security.protocol": protocol}
    uses_tls, uses_sasl = protocol.endswith("SSL"), protocol.startswith("SASL_")
    _refuse_unused(env, () if uses_tls else TLS, protocol)
    _refuse_unused(env, () if uses_sasl else ("KAFKA_SASL_MECHANISM", *CREDENTIALS), protocol)
    if uses_tls:
        options |= {option: value for name, option in TLS.items() if (value := env.text(name))}
    if uses_sasl:
        options |= _login(env, protocol)
    return options


def uses_iam(options: dict[str, Any]) -> bool:
    """Whether a token is to be signed for each connection, which `config.wiring` adds."""
    return options.get("sasl.mechanism") == "OAUTHBEARER"


def _login(env: Environment, protocol: str) -> dict[str, Any]:
    mechanism = env.one_of("KAFKA_SASL_MECHANISM", MECHANISMS, "SCRAM-SHA-512")
    if mechanism == IAM:
        _refuse_unused(env, CREDENTIALS, f"{protocol} with {IAM}")
        return {"sasl.mechanism": "OAUTHBEARER"}
    credentials = {option: env.required(name, f"{protocol} needs it") for name, option in CREDENTIALS.items()}
    return {"sasl.mechanism": mechanism, **credentials}


def _refuse_unused(env: Environment, names: Iterable[str], protocol: str) -> None:
    for name in names:
        if env.text(name):
            env.refuse(f"{name} is set, but KAFKA_SECURITY_PROTOCOL {protocol} does not use it.")
