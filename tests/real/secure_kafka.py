"""A broker with a listener for each kind of authentication."""

from pathlib import Path
from typing import Any

from engines.ports import LOOPBACK, ReservedPort
from tests.engines.kafka import ApacheKafka, format_directory
from tests.real.certificates import Authority

USERNAME, PASSWORD = "parley", "known to the two of us"
MODULES = "org.apache.kafka.common.security"


class SecureKafka(ApacheKafka):
    """`TLS` shows the server's certificate, `MUTUAL` asks for the client's too, `LOGIN` for a name and a password.

    `TOKEN` takes tokens as MSK does with IAM, also unsigned ones.
    """

    def __init__(self, authority: Authority, directory: Path) -> None:
        super().__init__()
        self._authority = authority
        self._keystore = directory / "server-keystore.pem"
        self._keystore.write_text(authority.issue("server").pem)
        self._ports = {name: ReservedPort() for name in ("TLS", "MUTUAL", "LOGIN", "TOKEN")}

    def address(self, listener: str) -> str:
        return f"{LOOPBACK}:{self._ports[listener].number}"

    def close(self) -> None:
        super().close()
        for port in self._ports.values():
            port.release()

    def _format(self, directory: Path) -> None:
        user = f"SCRAM-SHA-512=[name={USERNAME},password={PASSWORD}]"
        format_directory(directory, self._node, "--add-scram", user)

    def _properties(self, directory: Path) -> dict[str, Any]:
        plain = super()._properties(directory)
        for port in self._ports.values():
            port.hand_over()
        return {
            **plain,
            "listeners": ",".join([plain["listeners"], *(f"{name}://{self.address(name)}" for name in self._ports)]),
            "listener.security.protocol.map": f"{plain['listener.security.protocol.map']},"
            "TLS:SSL,MUTUAL:SSL,LOGIN:SASL_SSL,TOKEN:SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._keystore,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._authority.certificate,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
            "listener.name.login.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
            "listener.name.login.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required "
            f'user_{USERNAME}="{PASSWORD}";',
            "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.token.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule "
            'required unsecuredLoginStringClaim_sub="broker";',
        }
