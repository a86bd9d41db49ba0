"""What strangers can do to a process over HTTP without a login: every attack ends, and others are served meanwhile."""

import json
import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPResponse
from socket import IPPROTO_TCP, SO_RCVBUF, SOL_SOCKET, TCP_INFO

import httpx
import psutil
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from engines.ports import LOOPBACK, ReservedPort
from tests.doubles import eventually
from tests.e2e.system import System, Web

BODY_LIMIT = 256 * 1024
MEBIBYTE = 2**20
DEADLINE = 20.0
ESTABLISHED = 1
BACKLOG_OF_TWISTED = 50
LARGE_FILE = "/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js"
CONNECTIONS = 8
SHORT = {"REQUEST_TIMEOUT": "1.5", "RESPONSE_TIMEOUT": "1.5"}
PRODUCTION = {
    "DJANGO_SETTINGS_MODULE": "config.settings.production",
    "DATABASE_URL": "postgres://staff:word@127.0.0.1:9/staff",
    "SMS_BACKEND": "sns",
    "ALLOWED_HOSTS": LOOPBACK,
    "TRUSTED_PROXIES": "10.0.0.0/8",
    "MAX_CONNECTIONS_PER_ADDRESS": str(CONNECTIONS),
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A process with short timeouts. The limit of connections is below what the tests use, and loopback is exempt."""
    settings = {**SHORT, "MAX_CONNECTIONS_PER_ADDRESS": "1"}
    with System(tmp_path_factory.mktemp("edge"), fanouts=0, settings=settings) as system:
        yield system
    system.require_no_failures()


@pytest.fixture(scope="module")
def edge(system: System) -> Web:
    return system.webs[0]


@pytest.fixture(scope="module")
def production(system: System) -> Web:
    return system.start_web(wait=True, **PRODUCTION)


@pytest.fixture(scope="module")
def admin_port() -> Iterator[ReservedPort]:
    with ReservedPort() as port:
        yield port


@pytest.fixture(scope="module")
def proxied(system: System, admin_port: ReservedPort) -> Web:
    """A process in production for which loopback is a proxy, with a port for operators."""
    admin_port.hand_over()
    settings = PRODUCTION | {"TRUSTED_PROXIES": "127.0.0.0/8", "ADMIN_PORT": str(admin_port.number)}
    return system.start_web(wait=True, **settings)


@contextmanager
def connection(web: Web, *, receive_buffer: int | None = None) -> Iterator[socket.socket]:
    with closing(socket.socket()) as client:
        if receive_buffer is not None:
            client.setsockopt(SOL_SOCKET, SO_RCVBUF, receive_buffer)
        client.settimeout(DEADLINE)
        client.connect((LOOPBACK, web.port))
        yield client


def head(web: Web, *lines: str, method: str = "POST", path: str = "/api/auth/request-code") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {LOOPBACK}:{web.port}", *lines, "", ""]).encode("latin1")


def answer(client: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """The status, headers and body of the next answer."""
    response = HTTPResponse(client)
    response.begin()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


def is_closed(client: socket.socket) -> bool:
    """Whether the server has ended the connection, without reading what it sent."""
    (state,) = struct.unpack_from("B", client.getsockopt(IPPROTO_TCP, TCP_INFO, 8))
    return int(state) != ESTABLISHED


def send_until_refused(client: socket.socket, chunk: bytes, times: int) -> int:
    """Send as long as the server takes it; return how many bytes it took."""
    sent = 0
    client.settimeout(1.0)
    try:
        for _ in range(times):
            client.sendall(chunk)
            sent += len(chunk)
    except OSError:
        pass
    client.settimeout(DEADLINE)
    return sent


def resident_bytes(web: Web) -> int:
    return int(psutil.Process(web.process.pid).memory_info().rss)


class TestBodies:
    def test_a_large_one_is_refused_by_its_length_before_it_is_sent(self, edge: Web) -> None:
        with connection(edge) as client:
            client.sendall(head(edge, f"Content-Length: {BODY_LIMIT + 1}", "Content-Type: application/json"))
            status, headers, body = answer(client)
            assert (status, headers["content-type"]) == (413, "application/problem+json")
            assert json.loads(body)["code"] == "request_too_large"
            assert (headers["connection"], headers["cache-control"]) == ("close", "no-store")
            eventually(lambda: is_closed(client), within=DEADLINE)

    def test_nobody_is_told_to_continue_with_one_that_is_refused(self, edge: Web) -> None:
        with connection(edge) as client:
            client.sendall(head(edge, f"Content-Length: {BODY_LIMIT + 1}", "Expect: 100-continue"))
            assert client.recv(12) == b"HTTP/1.1 413"

    def test_one_within_the_limit_is_asked_for(self, edge: Web) -> None:
        with connection(edge) as client:
            client.sendall(head(edge, "Content-Length: 2", "Content-Type: application/json", "Expect: 100-continue"))
            assert client.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.sendall(b"{}")
            assert answer(client)[0] == 422

    def test_one_of_the_largest_size_is_read_to_its_end(self, edge: Web) -> None:
        def chunked() -> Iterator[bytes]:
            for _ in range(BODY_LIMIT // 4096):
                yield b" " * 4096

        headers = {"Content-Type": "application/json"}
        for content in (b" " * BODY_LIMIT, chunked()):
            refusal = httpx.post(f"{edge.url}/api/auth/request-code", content=content, headers=headers)
            assert refusal.json()["code"] == "invalid_request"

    def test_one_of_unknown_length_is_read(self, edge: Web) -> None:
        pieces = iter((b'{"refresh_', b'token": "none"}'))
        headers = {"Content-Type": "application/json"}
        refusal = httpx.post(f"{edge.url}/api/auth/refresh", content=pieces, headers=headers)
        assert refusal.json()["code"] == "invalid_refresh_token"

    def test_one_of_unknown_length_is_cut_off_while_it_arrives(self, edge: Web) -> None:
        piece = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
        before = resident_bytes(edge)
        with connection(edge) as client:
            client.sendall(head(edge, "Transfer-Encoding: chunked", "Content-Type: application/json"))
            send_until_refused(client, piece, times=3200)
            assert answer(client)[0] == 413
        assert resident_bytes(edge) - before < 16 * MEBIBYTE

    def test_one_in_thousands_of_tiny_chunks_is_cut_off(self, edge: Web) -> None:
        with connection(edge) as client:
            client.sendall(head(edge, "Transfer-Encoding: chunked") + b"1\r\na\r\n" * 2000)
            assert answer(client)[0] == 413

    def test_two_hundred_mebibytes_cost_no_memory(self, edge: Web) -> None:
        before = resident_bytes(edge)
        with connection(edge) as client:
            client.sendall(head(edge, f"Content-Length: {200 * MEBIBYTE}", "Content-Type: application/json"))
            assert send_until_refused(client, b"a" * MEBIBYTE, times=200) < 100 * MEBIBYTE
        assert resident_bytes(edge) - before < 16 * MEBIBYTE

    @pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
    def test_forms_are_never_parsed(self, edge: Web, kind: str) -> None:
        form = b"a=1&" * 50 + b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--x--\r\n"
        for path, status in {"/api/auth/request-code": 415, "/healthz": 405, "/nowhere": 404}.items():
            refusal = httpx.post(edge.url + path, content=form, headers={"Content-Type": kind})
            assert (refusal.status_code, refusal.headers["Content-Type"]) == (status, "application/problem+json")


class TestSlowClients:
    @pytest.mark.parametrize("start", [b"", b"GET / HT", b"POST /api/chats HTTP/1.1\r\nContent-Length: 1000\r\n\r\n"])
    def test_a_drip_of_bytes_does_not_keep_a_connection(self, edge: Web, start: bytes) -> None:
        with connection(edge) as client:
            client.sendall(start)

            def drips_in_vain() -> bool:
                try:
                    client.send(b"X")
                except OSError:
                    return True
                return is_closed(client)

            eventually(drips_in_vain, within=DEADLINE)

    def test_a_connection_that_sends_nothing_ends(self, edge: Web) -> None:
        with connection(edge) as client:
            eventually(lambda: is_closed(client), within=DEADLINE)

    def test_the_second_request_of_a_connection_has_a_deadline_of_its_own(self, edge: Web) -> None:
        with connection(edge) as client:
            client.sendall(head(edge, method="GET", path="/healthz"))
            assert answer(client)[0] == 200
            time.sleep(2.0)  # longer than a request may take: between requests a connection may rest
            assert not is_closed(client)
            client.sendall(head(edge, method="GET", path="/healthz"))
            assert answer(client)[0] == 200
            client.sendall(b"GET ")
            eventually(lambda: is_closed(client), within=DEADLINE)

    @pytest.mark.parametrize("lines", [("Connection: close",), ()])
    def test_a_client_that_does_not_read_its_answer_is_cut_off(self, edge: Web, lines: tuple[str, ...]) -> None:
        with connection(edge, receive_buffer=4096) as client:
            request = head(edge, *lines, method="GET", path=LARGE_FILE)
            client.sendall(request if lines else request * 8)
            # What the operating system's buffers took is theirs; the process itself holds nothing any more.
            eventually(lambda: not held(edge, client), within=DEADLINE)

    def test_answers_to_pipelined_requests_do_not_pile_up(self, edge: Web) -> None:
        sizes = [resident_bytes(edge)]

        def is_cut_off() -> bool:
            sizes.append(resident_bytes(edge))
            return not held(edge, client)

        with connection(edge, receive_buffer=4096) as client:
            client.sendall(head(edge, method="GET", path=LARGE_FILE) * 500)
            eventually(is_cut_off, within=DEADLINE)
        assert max(sizes) - sizes[0] < 32 * MEBIBYTE

    def test_pipelined_requests_are_all_answered(self, edge: Web) -> None:
        with connection(edge, receive_buffer=64 * 1024) as client:
            client.sendall(head(edge, method="GET", path=LARGE_FILE) * 7)
            client.sendall(head(edge, "Connection: close", method="GET", path=LARGE_FILE))
            received = b""
            while data := client.recv(1024 * 1024):
                received += data
            assert received.count(b"HTTP/1.1 200 OK\r\n") == 8

    def test_a_client_that_reads_slowly_gets_all_of_it(self, edge: Web) -> None:
        with connection(edge, receive_buffer=64 * 1024) as client:
            client.sendall(head(edge, "Connection: close", method="GET", path=LARGE_FILE))
            received, ends = 0, time.monotonic() + DEADLINE
            while (data := client.recv(16 * 1024)) and time.monotonic() < ends:
                received += len(data)
                time.sleep(0.03)
            assert received > 1_500_000


def held(web: Web, client: socket.socket) -> bool:
    """Whether the process still has its side of a connection."""
    address = client.getsockname()
    connections = psutil.Process(web.process.pid).net_connections("tcp4")
    return any(connection.raddr == address for connection in connections)


class TestManyConnections:
    def test_a_mass_reconnect_waits_in_the_queue_of_the_operating_system(self, edge: Web) -> None:
        with ExitStack() as clients:
            clients.callback(edge.thaw)
            edge.freeze()
            sockets = [clients.enter_context(closing(socket.socket())) for _ in range(6 * BACKLOG_OF_TWISTED)]
            for client in sockets:
                client.setblocking(False)
                client.connect_ex((LOOPBACK, edge.port))
            eventually(lambda: not is_connecting(sockets), within=DEADLINE)
        assert httpx.get(f"{edge.url}/healthz").status_code == 200

    def test_loopback_is_not_counted_in_an_embedded_run(self, edge: Web) -> None:
        with ExitStack() as clients:
            for _ in range(5):
                client = clients.enter_context(connection(edge))
                client.sendall(head(edge, method="GET", path="/healthz"))
                assert answer(client)[0] == 200


def is_connecting(sockets: Sequence[socket.socket]) -> bool:
    return len(select.select([], sockets, [], 0)[1]) < len(sockets)


class TestConnectionsOfAnAddress:
    def test_more_of_them_are_closed_at_once(self, production: Web) -> None:
        with ExitStack() as clients:
            all_of_them = [clients.enter_context(admitted(production)) for _ in range(CONNECTIONS - 1)]
            eventually(lambda: is_refused(production), within=DEADLINE)
            assert all(not is_closed(client) for client in all_of_them)
        with admitted(production):
            pass

    def test_sockets_count_and_give_their_places_back(self, system: System, production: Web) -> None:
        device = system.user()
        for _ in range(2):
            with ExitStack() as clients:
                for _ in range(CONNECTIONS - 1):
                    eventually(lambda: is_admitted(production), within=DEADLINE)
                    clients.enter_context(opened(production, device.headers))
                eventually(lambda: is_refused(production), within=DEADLINE)

    def test_behind_a_proxy_each_forwarded_address_has_its_own(self, system: System, proxied: Web) -> None:
        device = system.user()
        forwarded = {**device.headers, "X-Forwarded-For": "192.0.2.1"}
        with ExitStack() as clients:
            for _ in range(CONNECTIONS):
                clients.enter_context(opened(proxied, forwarded))
            with pytest.raises(InvalidStatus) as refusal:
                connect(proxied.socket_url, additional_headers=forwarded)
            assert refusal.value.response.status_code == 429
            assert get_status(proxied, "/api/chats", "192.0.2.1") == 429
            assert get_status(proxied, "/healthz", "192.0.2.1") == 200
            assert get_status(proxied, "/api/chats", "192.0.2.3") == 401
        for _ in range(2 * CONNECTIONS):
            eventually(lambda: get_status(proxied, "/api/chats", "192.0.2.1") == 401, within=DEADLINE)

    def test_behind_a_proxy_an_address_counts_while_its_bodies_arrive(self, proxied: Web) -> None:
        with ExitStack() as clients:
            for _ in range(CONNECTIONS):
                client = clients.enter_context(connection(proxied))
                send_body(client, proxied, "192.0.2.7")
                assert client.recv(12) == b"HTTP/1.1 100"
            client = clients.enter_context(connection(proxied))
            send_body(client, proxied, "192.0.2.7")
            assert answer(client)[0] == 429
            client = clients.enter_context(connection(proxied))
            send_body(client, proxied, "192.0.2.8")
            assert client.recv(12) == b"HTTP/1.1 100"


def is_refused(web: Web) -> bool:
    """Whether the second of two more connections is closed at once."""
    with connection(web), connection(web) as client:
        client.settimeout(0.5)
        try:
            return client.recv(1) == b""
        except TimeoutError:
            return False


def get_status(web: Web, path: str, forwarded_for: str) -> int:
    headers = {"X-Forwarded-For": forwarded_for, "X-Forwarded-Proto": "https"}
    return httpx.get(web.url + path, headers=headers).status_code


def send_body(client: socket.socket, web: Web, forwarded_for: str) -> None:
    """Send a request whose body does not end."""
    lines = (f"Content-Length: {BODY_LIMIT}", f"X-Forwarded-For: {forwarded_for}", "Expect: 100-continue")
    client.sendall(head(web, *lines, "Content-Type: application/json") + b"a" * 1000)


@contextmanager
def admitted(web: Web) -> Iterator[socket.socket]:
    """A connection that the process serves. Waits for places of connections that have just ended."""
    eventually(lambda: is_admitted(web), within=DEADLINE)
    with connection(web) as client:
        client.sendall(head(web, method="GET", path="/healthz"))
        assert answer(client)[0] == 200
        yield client


def is_admitted(web: Web) -> bool:
    try:
        return httpx.get(f"{web.url}/healthz").status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def opened(web: Web, headers: dict[str, str]) -> Iterator[None]:
    with connect(web.socket_url, additional_headers=headers) as client:
        assert json.loads(client.recv(DEADLINE))["type"] == "connected"
        yield


class TestHeaders:
    def test_clients_do_not_choose_the_root_path(self, edge: Web) -> None:
        for value in ("/elsewhere", "\xff"):
            with connection(edge) as client:
                client.sendall(head(edge, f"Daphne-Root-Path: {value}", method="GET", path="/healthz"))
                assert answer(client)[0] == 200

    def test_clients_do_not_claim_to_have_come_by_tls(self, production: Web, proxied: Web) -> None:
        claim = {"X-Forwarded-Proto": "https"}
        assert httpx.get(production.url, headers=claim).status_code == httpx.codes.MOVED_PERMANENTLY
        assert httpx.get(proxied.url, headers=claim).status_code == httpx.codes.OK

    @pytest.mark.parametrize("host", ["><", "a b", "[::1", "@" * 9000, "127.0.0.1:port", "é"])
    def test_a_malformed_host_is_one_line_and_no_traceback(self, edge: Web, host: str) -> None:
        start = len(edge.lines)
        with connection(edge) as client:
            client.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin1"))
            status, headers, _ = answer(client)
        assert (status, headers["content-type"]) == (400, "application/problem+json")
        assert httpx.get(f"{edge.url}/healthz").status_code == 200
        lines = edge.lines[start:]
        assert len(lines) <= 1
        assert all(len(line) < 400 and "Traceback" not in line for line in lines)

    def test_a_thousand_malformed_hosts_are_a_few_lines(self, edge: Web) -> None:
        start = len(edge.lines)
        with httpx.Client(base_url=edge.url) as client:
            for number in range(200):
                assert client.get("/", headers={"Host": f"evil-{number}.example"}).status_code == 400
        assert len(edge.lines) - start <= 40

    @pytest.mark.parametrize(
        "request_",
        [b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"],
    )
    def test_a_malformed_request_is_a_problem_and_ends_the_connection(self, edge: Web, request_: bytes) -> None:
        with connection(edge) as client:
            client.sendall(request_ + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            status, headers, _ = answer(client)
            assert (status, headers["content-type"]) == (400, "application/problem+json")
            eventually(lambda: is_closed(client), within=DEADLINE)

    def test_nothing_of_the_api_is_stored_by_caches(self, edge: Web) -> None:
        for path in ("/api/chats", "/api/nowhere", "/api/schema", "/api/docs", "/healthz", "/metrics"):
            assert httpx.get(edge.url + path).headers["Cache-Control"] == "no-store", path

    def test_http_2_is_not_spoken(self, edge: Web) -> None:
        with connection(edge) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.1 400"


class TestPaths:
    def test_bytes_that_are_not_utf_8_are_no_emoji(self, system: System, edge: Web) -> None:
        ada, bob = system.users(2)
        messages = f"/api/chats/{system.direct_chat(ada, bob)}/messages"
        system.rest(ada, "POST", messages, client_message_id="one", content="one")
        authorization = f"Authorization: {ada.headers['Authorization']}"
        with connection(edge) as client:
            client.sendall(head(edge, authorization, method="PUT", path=f"{messages}/1/reactions/%FF"))
            status, _, body = answer(client)
        assert (status, json.loads(body)["code"]) == (422, "invalid_request")


class TestOperators:
    INSIDE = ("/metrics", "/api/schema", "/api/asyncapi", "/api/docs", LARGE_FILE)

    def test_in_production_the_public_sees_only_whether_a_process_is_ready(self, production: Web) -> None:
        with httpx.Client(base_url=production.url) as client:
            for path in self.INSIDE:
                refused = client.get(path)
                assert (refused.status_code, refused.json()["code"]) == (404, "not_found"), path
            assert client.get("/readyz").json() == {"status": "ready"}

    def test_a_load_balancer_probes_a_process_by_its_address(self, production: Web) -> None:
        with httpx.Client(base_url=production.url, headers={"Host": "10.0.1.23:8000"}) as client:
            assert [client.get(path).status_code for path in ("/healthz", "/readyz/gateway")] == [200, 200]
            assert client.get("/api/users/me").status_code == 400

    def test_of_static_files_only_those_that_pages_use_are_served(self, proxied: Web, edge: Web) -> None:
        for web in (proxied, edge):
            with httpx.Client(base_url=web.url, headers={"X-Forwarded-Proto": "https"}) as client:
                for path in ("parley/parley.js", "admin/css/base.css"):
                    assert client.get(f"/static/{path}").status_code == 200, path
                for path in ("rest_framework/css/bootstrap.min.css.map", "django_otp/x", "parley", "../config/urls.py"):
                    assert client.get(f"/static/{path}").status_code == 404, path

    def test_operators_have_a_port_of_their_own(self, proxied: Web, admin_port: ReservedPort) -> None:
        inside = f"http://{LOOPBACK}:{admin_port.number}"
        assert [httpx.get(inside + path).status_code for path in self.INSIDE] == [200] * len(self.INSIDE)
        assert httpx.get(f"{inside}/readyz").json()["engines"].keys() == {"dynamodb", "gateway", "kafka", "redis"}
        assert [httpx.get(proxied.url + path).status_code for path in self.INSIDE] == [404] * len(self.INSIDE)
        assert httpx.get(f"{proxied.url}/readyz").json() == {"status": "ready"}
