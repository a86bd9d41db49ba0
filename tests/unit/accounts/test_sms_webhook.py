"""The webhook by which any SMS provider is reached: signed, retried, silent about numbers and codes."""

import hashlib
import hmac
import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from accounts.errors import SmsUnavailable
from accounts.services.sms import CodeMessage
from accounts.services.sms_webhook import WebhookSmsSender
from foundation.kernel.retry import RetryPolicy

MESSAGE = CodeMessage(to="+14155550123", code="123456", body="123456 is your Parley code.")
SECRET = "s" * 40
AT_ONCE = RetryPolicy(attempts=3, first_pause=0.0, longest_pause=0.0)


@dataclass
class Provider:
    """Answers with the statuses in turn, then 200, and keeps what it got."""

    statuses: list[int] = field(default_factory=list)
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    def sender(self) -> WebhookSmsSender:
        return WebhookSmsSender(self.url, secret=SECRET, retry=AT_ONCE, timeout=2.0, now=lambda: 1_700_000_000.9)


@pytest.fixture
def provider() -> Iterator[Provider]:
    received = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.requests.append((dict(self.headers), body))
            status = received.statuses.pop(0) if received.statuses else 200
            self.send_response(status)
            if status == 302:
                self.send_header("Location", received.url)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_port}/send"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield received
    server.shutdown()
    server.server_close()
    thread.join()


class TestSend:
    def test_the_receiver_can_verify_who_sent_the_message(self, provider: Provider) -> None:
        provider.sender().send(MESSAGE)
        [(headers, body)] = provider.requests
        assert json.loads(body) == {"to": MESSAGE.to, "body": MESSAGE.body}
        digest = hmac.new(SECRET.encode(), b"1700000000." + body, hashlib.sha256).hexdigest()
        assert headers["Parley-Signature"] == f"t=1700000000,v1={digest}"

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_a_failure_that_may_pass_is_retried_with_the_same_key(self, provider: Provider, status: int) -> None:
        provider.statuses = [status, status]
        provider.sender().send(MESSAGE)
        keys = {headers["Idempotency-Key"] for headers, _ in provider.requests}
        assert len(provider.requests) == 3
        assert len(keys) == 1

    @pytest.mark.parametrize("status", [302, 400, 401])
    def test_a_refusal_or_redirect_is_final(self, provider: Provider, status: int) -> None:
        provider.statuses = [status]
        with pytest.raises(SmsUnavailable):
            provider.sender().send(MESSAGE)
        assert len(provider.requests) == 1

    def test_a_provider_that_stays_away_is_unavailable_and_logged_without_the_number(
        self, provider: Provider, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        provider.statuses = [503] * 3
        with pytest.raises(SmsUnavailable):
            provider.sender().send(MESSAGE)
        assert "status 503" in caplog.text
        assert MESSAGE.to not in caplog.text
        assert MESSAGE.code not in caplog.text

    def test_nobody_listening_is_unavailable(self) -> None:
        with pytest.raises(SmsUnavailable):
            WebhookSmsSender("http://127.0.0.1:1/", secret=SECRET, retry=AT_ONCE).send(MESSAGE)
