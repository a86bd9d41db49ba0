"""Sends login codes to an HTTPS endpoint of the operator, by which any SMS provider is reached.

Each request is a JSON object `{"to", "body"}` with the headers `Idempotency-Key` (the same in every retry) and
`Parley-Signature: t=<Unix time>,v1=<hex>`, the HMAC-SHA256 of `<time>.<request body>`. A 2xx answer takes the message.
"""

import hashlib
import hmac
import http.client
import logging
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus

import orjson

from accounts.errors import SmsUnavailable
from accounts.services.sms import CodeMessage
from foundation.kernel.retry import RetryPolicy

log = logging.getLogger(__name__)

TIMEOUT = 5.0
RETRIES = RetryPolicy(attempts=3, first_pause=0.2, longest_pause=1.0)
SIGNATURE_HEADER = "Parley-Signature"


class WebhookSmsSender:
    """Retries after timeouts, 429 and 5xx. Follows no redirect: the body holds a code."""

    def __init__(
        self,
        url: str,
        *,
        secret: str,
        timeout: float = TIMEOUT,
        retry: RetryPolicy = RETRIES,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._url = url
        self._secret = secret.encode()
        self._timeout = timeout
        self._retry = retry
        self._now = now
        self._opener = urllib.request.build_opener(_NoRedirects())

    def send(self, message: CodeMessage) -> None:
        body = orjson.dumps({"to": message.to, "body": message.body})
        key = secrets.token_urlsafe(16)
        reason = ""
        for _ in self._retry.tries():
            reason, is_final = self._post(body, key)
            if not reason:
                return
            if is_final:
                break
        log.warning("the SMS webhook did not take a message: %s", reason)
        raise SmsUnavailable

    def _post(self, body: bytes, key: str) -> tuple[str, bool]:
        """Why the message was not taken, or an empty text; and whether a retry would not help."""
        request = urllib.request.Request(  # noqa: S310 - the settings require https
            self._url,
            data=body,
            method="POST",
            headers={
                "Content-Type": "application/json",
                "Idempotency-Key": key,
                SIGNATURE_HEADER: sign(self._secret, body, at=int(self._now())),
            },
        )
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                response.read(1)
        except urllib.error.HTTPError as error:
            with error:
                is_retryable = (
                    error.code == HTTPStatus.TOO_MANY_REQUESTS or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
                )
                return f"status {error.code}", not is_retryable
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__, False
        return "", True


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: object, **kwargs: object) -> None:
        return None


def sign(secret: bytes, body: bytes, *, at: int) -> str:
    """The signature's header. A receiver computes it anew, compares in constant time, and refuses an old time."""
    digest = hmac.new(secret, b"%d.%b" % (at, body), hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"
