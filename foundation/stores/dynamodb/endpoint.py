"""Where DynamoDB is, as boto3 users say it: by our settings, the environment, or a profile of AWS."""

import botocore.session
from botocore.exceptions import BotoCoreError
from yarl import URL

from foundation.stores.errors import EndpointUnusable


def resolve_endpoint(region: str, endpoint_url: str | None = None) -> URL:
    """Follow `AWS_ENDPOINT_URL_DYNAMODB`, `AWS_ENDPOINT_URL` and `AWS_USE_FIPS_ENDPOINT` too. Asks no network.

    Raises `EndpointUnusable`, which does not repeat the URL: it may contain a password.
    """
    # With credentials in hand it does not look for any, which may ask the network.
    none = "none"
    try:
        client = botocore.session.get_session().create_client(
            "dynamodb", region, endpoint_url=endpoint_url, aws_access_key_id=none, aws_secret_access_key=none
        )
        url = URL(client.meta.endpoint_url)
    except BotoCoreError as error:
        raise EndpointUnusable(f"AWS_REGION or the profile does not say where DynamoDB is: {error}") from error
    except ValueError:
        url = URL()
    if url.scheme not in {"http", "https"} or not url.host:
        raise EndpointUnusable(
            "The endpoint of DynamoDB is not a URL that begins with http:// or https:// "
            "(DYNAMODB_ENDPOINT_URL, AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL or endpoint_url of the profile)"
        )
    # As botocore, ignore a user and a password: the request has an `Authorization` of its own.
    return url.with_user(None)
