"""The token that Amazon MSK takes for a login: the address of a signed request."""

import base64
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.credentials import Credentials

from foundation.stores.kafka.msk_iam import MskIamTokens, NoCredentials

KEYS = Credentials("AKIDEXAMPLE", "a secret", "a session's token")


def opened(token: str) -> str:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


class TestTokens:
    def test_it_is_a_connection_request_signed_for_fifteen_minutes(self) -> None:
        token, end = MskIamTokens("eu-central-1", KEYS)("")
        assert "=" not in token
        address = urlsplit(opened(token))
        fields = {name: values[0] for name, values in parse_qs(address.query).items()}
        assert (address.scheme, address.netloc) == ("https", "kafka.eu-central-1.amazonaws.com")
        assert fields["Action"] == "kafka-cluster:Connect"
        assert fields["X-Amz-Expires"] == "900"
        assert fields["X-Amz-Credential"].startswith("AKIDEXAMPLE/")
        assert fields["X-Amz-Credential"].endswith("/eu-central-1/kafka-cluster/aws4_request")
        assert fields["X-Amz-Security-Token"] == "a session's token"
        assert end == pytest.approx(time.time() + 900, abs=5)

    def test_another_secret_signs_otherwise(self) -> None:
        tokens = [MskIamTokens("eu-central-1", Credentials("AKID", secret))("")[0] for secret in ("one", "other")]
        first, second = (parse_qs(urlsplit(opened(token)).query)["X-Amz-Signature"] for token in tokens)
        assert first != second

    def test_without_credentials_it_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("foundation.stores.kafka.msk_iam.Session.get_credentials", lambda session: None)
        with pytest.raises(NoCredentials):
            MskIamTokens("eu-central-1")("")
