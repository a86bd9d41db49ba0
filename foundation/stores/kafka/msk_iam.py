"""Login to Amazon MSK by IAM, with the AWS credentials of the process.

The token is the URL of a signed `kafka-cluster:Connect` request.
"""

import base64
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.session import Session

from foundation.kernel.errors import ParleyError

SERVICE = "kafka-cluster"
TOKEN_LIFETIME = 900


class NoCredentials(ParleyError):
    """botocore finds no AWS credentials to sign with."""


class MskIamTokens:
    """Signs a token whenever librdkafka asks for one, which it does before the last one expires."""

    def __init__(self, region: str, credentials: Credentials | None = None) -> None:
        self._region = region
        self._credentials = credentials

    def __call__(self, _configuration: str) -> tuple[str, float]:
        """The token, and its expiry in seconds since 1970. Raises `NoCredentials`."""
        address = f"https://kafka.{self._region}.amazonaws.com/?Action=kafka-cluster%3AConnect"
        request = AWSRequest(method="GET", url=address)
        credentials = self._find_credentials().get_frozen_credentials()
        SigV4QueryAuth(credentials, SERVICE, self._region, expires=TOKEN_LIFETIME).add_auth(request)
        token = base64.urlsafe_b64encode(f"{request.url}&User-Agent=parley".encode()).rstrip(b"=")
        return token.decode(), _expiry_of(str(request.url))

    def _find_credentials(self) -> Credentials:
        if self._credentials is None:
            self._credentials = Session().get_credentials()
        if self._credentials is None:
            raise NoCredentials("Kafka's IAM login needs AWS credentials, and there are none")
        return self._credentials


def _expiry_of(signed: str) -> float:
    (signed_at,) = parse_qs(urlsplit(signed).query)["X-Amz-Date"]
    return datetime.strptime(signed_at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp() + TOKEN_LIFETIME
