"""What every request to the API passes first: host, HTTPS, CORS and headers."""

from typing import Any

import pytest

from foundation.server.edge import HEADERS, Edge, EdgeOptions
from tests.asgi import Answer

ORIGIN = b"https://app.parley.example"
OPTIONS = EdgeOptions(allowed_hosts=["chat.example"], allowed_origins=["https://*.parley.example"])
PRODUCTION = EdgeOptions(
    allowed_hosts=["chat.example"],
    allowed_origins=[],
    https_only=True,
    https_exempt=["^static/"],
    probes=["/healthz"],
    trusts_forwarded_proto=True,
    hsts_seconds=60,
)


class EdgeAnswer(Answer):
    reached = False
    """The application behind the edge was asked."""


async def ask(
    *headers: tuple[bytes, bytes],
    options: EdgeOptions = OPTIONS,
    method: str = "GET",
    path: str = "/api/chats",
    host: bytes = b"chat.example",
    status: int = 200,
    own: tuple[tuple[bytes, bytes], ...] = (),
) -> EdgeAnswer:
    answer = EdgeAnswer()

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        answer.reached = True
        await send({"type": "http.response.start", "status": status, "headers": list(own)})

    scope = {
        "type": "http",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"limit=1",
        "headers": [(b"host", host), *headers],
    }
    await Edge(application, options)(scope, None, answer.send)
    return answer


class TestHost:
    @pytest.mark.parametrize("host", [b"chat.example", b"chat.example:8000", b"CHAT.example"])
    async def test_a_known_one_reaches_the_application(self, host: bytes) -> None:
        assert (await ask(host=host)).reached

    @pytest.mark.parametrize("host", [b"evil.example", b"", b"a b", b"\xff", b"[::1"])
    async def test_another_is_a_problem(self, host: bytes) -> None:
        answer = await ask(host=host)
        assert not answer.reached
        assert (answer.status, answer.code) == (400, "invalid_request")

    async def test_two_of_them_are_a_problem(self) -> None:
        assert (await ask((b"host", b"chat.example"))).status == 400


class TestProbes:
    @pytest.mark.parametrize("host", [b"10.0.1.23:8000", b"web-1:8000", b""], ids=["ALB", "Caddy", "none"])
    async def test_a_probe_reaches_the_application_by_any_host_and_without_tls(self, host: bytes) -> None:
        assert (await ask(options=PRODUCTION, path="/healthz", host=host)).reached

    async def test_no_other_path_does(self) -> None:
        for path in ("/healthz/", "/healthz/more", "//healthz"):
            assert (await ask(options=PRODUCTION, path=path, host=b"10.0.1.23:8000")).status == 400


class TestHttps:
    async def test_http_is_redirected_with_path_and_query(self) -> None:
        answer = await ask(options=PRODUCTION)
        assert not answer.reached
        assert (answer.status, answer.headers["location"]) == (301, "https://chat.example/api/chats?limit=1")

    async def test_exempt_paths_are_not_redirected(self) -> None:
        assert (await ask(options=PRODUCTION, path="/static/app.js")).reached

    async def test_what_a_proxy_decrypted_is_https_and_stays_so(self) -> None:
        answer = await ask((b"x-forwarded-proto", b"https"), options=PRODUCTION)
        assert answer.reached
        assert answer.headers["strict-transport-security"] == "max-age=60; includeSubDomains; preload"

    async def test_without_a_proxy_nobody_is_believed(self) -> None:
        answer = await ask((b"x-forwarded-proto", b"https"), options=OPTIONS)
        assert "strict-transport-security" not in answer.headers


class TestCors:
    async def test_an_allowed_origin_may_read_the_answer(self) -> None:
        answer = await ask((b"origin", ORIGIN))
        assert answer.headers["access-control-allow-origin"] == ORIGIN.decode()
        assert "Retry-After" in answer.headers["access-control-expose-headers"]
        assert answer.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in answer.headers

    @pytest.mark.parametrize("origin", [b"https://evil.example", b"null", b"\xff", b"https://app.parley.example.evil"])
    async def test_another_is_answered_without_permission(self, origin: bytes) -> None:
        answer = await ask((b"origin", origin))
        assert answer.reached
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["vary"] == "Origin"

    async def test_a_refused_host_is_readable_too(self) -> None:
        answer = await ask((b"origin", ORIGIN), host=b"evil.example")
        assert answer.headers["access-control-allow-origin"] == ORIGIN.decode()

    async def test_a_preflight_does_not_reach_the_application(self) -> None:
        wish = (b"access-control-request-method", b"PATCH")
        answer = await ask((b"origin", ORIGIN), wish, method="OPTIONS")
        assert (answer.status, answer.reached, answer.body) == (204, False, b"")
        assert answer.headers["access-control-allow-origin"] == ORIGIN.decode()
        assert "PATCH" in answer.headers["access-control-allow-methods"]
        assert {"Authorization", "Content-Type", "Idempotency-Key", "X-Request-ID", "traceparent"} == {
            name.strip() for name in answer.headers["access-control-allow-headers"].split(",")
        }
        assert int(answer.headers["access-control-max-age"]) > 0

    async def test_a_preflight_of_another_origin_is_refused(self) -> None:
        wish = (b"access-control-request-method", b"PATCH")
        answer = await ask((b"origin", b"https://evil.example"), wish, method="OPTIONS")
        assert (answer.status, answer.code, answer.reached) == (403, "forbidden", False)

    async def test_other_options_requests_reach_the_application(self) -> None:
        assert (await ask((b"origin", ORIGIN), method="OPTIONS")).reached


class TestHeaders:
    async def test_every_answer_has_them(self) -> None:
        headers = (await ask()).headers
        assert {name.decode(): headers[name.decode()] for name, _ in HEADERS} == {
            name.decode(): value.decode() for name, value in HEADERS
        }
        assert headers["cache-control"] == "no-store"

    async def test_what_the_answer_says_itself_is_left_alone(self) -> None:
        own = ((b"Cache-Control", b"public"), (b"Referrer-Policy", b"no-referrer"))
        headers = (await ask(own=own)).headers
        assert (headers["cache-control"], headers["referrer-policy"]) == ("public", "no-referrer")

    async def test_what_has_not_changed_stays_in_its_cache(self) -> None:
        assert "cache-control" not in (await ask(status=304)).headers


class TestRequestId:
    async def test_an_answer_names_its_request_so_that_its_log_lines_are_found(self) -> None:
        first, second = await ask(), await ask()
        assert first.headers["x-request-id"]
        assert first.headers["x-request-id"] != second.headers["x-request-id"]

    async def test_the_callers_own_id_is_kept(self) -> None:
        assert (await ask((b"x-request-id", b"trace-42"))).headers["x-request-id"] == "trace-42"

    @pytest.mark.parametrize("forged", [b"two words", b"x" * 65, b"a\nb"])
    async def test_what_could_not_stand_in_a_log_line_is_replaced(self, forged: bytes) -> None:
        assert (await ask((b"x-request-id", forged))).headers["x-request-id"] != forged.decode()
