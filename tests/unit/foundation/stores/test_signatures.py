"""Our signatures are botocore's."""

from datetime import UTC, datetime
from unittest.mock import patch

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from foundation.stores.dynamodb.wire import CONTENT_TYPE, Signer

REGION, HOST = "eu-west-1", "dynamodb.eu-west-1.amazonaws.com"
NOW = datetime(2026, 1, 30, 14, 30, 5, tzinfo=UTC)
ascii_text = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)


def signed_by_botocore(operation: str, body: bytes, credentials: Credentials, path: str = "/") -> str:
    headers = {"Content-Type": CONTENT_TYPE, "X-Amz-Target": f"DynamoDB_20120810.{operation}", "Host": HOST}
    request = AWSRequest(method="POST", url=f"https://{HOST}{path}", data=body, headers=headers)
    with patch("botocore.auth.get_current_datetime", return_value=NOW.replace(tzinfo=None)):
        SigV4Auth(credentials, "dynamodb", REGION).add_auth(request)
    return str(request.headers["Authorization"])


@given(st.binary(max_size=200), ascii_text, ascii_text, st.none() | ascii_text)
def test_the_same_request_is_signed_alike(body: bytes, access: str, secret: str, token: str | None) -> None:
    credentials = Credentials(access, secret, token)
    headers = Signer(host=HOST, region=REGION, now=lambda: NOW).headers("Query", body, credentials)
    assert headers["authorization"] == signed_by_botocore("Query", body, credentials)


@pytest.mark.parametrize("path", ["", "/dynamodb/", "/dynamodb", "/a%20b/~c:d", "/a//b", "/ch%C3%A4t"])
def test_the_path_of_an_endpoint_is_signed_too(path: str) -> None:
    credentials = Credentials("a", "b")
    headers = Signer(host=HOST, region=REGION, path=path, now=lambda: NOW).headers("Query", b"{}", credentials)
    assert headers["authorization"] == signed_by_botocore("Query", b"{}", credentials, path)


def test_requests_of_one_second_are_signed_each_for_itself() -> None:
    signer = Signer(host=HOST, region=REGION, now=lambda: NOW)
    old, new = Credentials("a", "old"), Credentials("b", "new", "token")
    requests = [("Query", b"{}", old), ("Query", b"{1}", old), ("PutItem", b"{1}", old), ("Query", b"{}", new)]
    for operation, body, credentials in requests:
        headers = signer.headers(operation, body, credentials)
        assert headers["authorization"] == signed_by_botocore(operation, body, credentials)
        assert headers["x-amz-target"] == f"DynamoDB_20120810.{operation}"


def test_a_new_day_and_a_new_secret_get_another_key() -> None:
    days = iter([NOW, NOW.replace(day=31), NOW])
    signer = Signer(host=HOST, region=REGION, now=lambda: next(days))
    old, new = Credentials("a", "old"), Credentials("a", "new")
    signatures = [signer.headers("Query", b"{}", each)["authorization"] for each in (old, old, new)]
    assert len(set(signatures)) == 3
    assert signatures[2] == signed_by_botocore("Query", b"{}", new)
