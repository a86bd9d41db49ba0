"""A load on the REST API: what wrk is told and tells, and our own client."""

import asyncio
import json
from collections import Counter

import pytest

from bench.http_load import run_own
from bench.rest_load import CONNECTIONS, Outcome, RestLoad
from bench.timeline import InvalidRun
from bench.wrk import lua_script, parse_wrk

PRINTED = """Running 8s test @ http://127.0.0.1:8000
  1 threads and 16 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    46.10ms    5.20ms  96.00ms   80.00%
    Req/Sec   347.00     12.00   370.00     70.00%
  Latency Distribution
     50%   45.50ms
     75%   48.00ms
     90%   52.00ms
     99%    1.02s
  2768 requests in 8.00s, 1.20MB read
{more}Requests/sec:    346.00
Transfer/sec:    153.60KB
"""
SOCKET_ERRORS = "  Socket errors: connect 1, read 2, write 0, timeout 4\n"
REFUSED = "  Non-2xx or 3xx responses: 20\n"


class TestWrk:
    def test_its_output_is_read(self) -> None:
        assert parse_wrk(PRINTED.format(more="")) == Outcome(2768, 0, 0.0455, 1.02)

    def test_refused_requests_and_broken_connections_have_failed(self) -> None:
        assert parse_wrk(PRINTED.format(more=SOCKET_ERRORS + REFUSED)).failed == 27

    def test_other_output_makes_the_run_invalid(self) -> None:
        with pytest.raises(InvalidRun):
            parse_wrk("unable to connect")

    def test_its_script_has_every_place_and_a_new_id_for_each_send(self) -> None:
        script = lua_script(RestLoad("http://here", [("token1", "/one"), ("token2", "/two")], sends="first"))
        assert '{ "token1", "/one" }, { "token2", "/two" }' in script
        assert """string.format('{"client_message_id":"first-%d",""" in script
        assert '"POST"' in script
        assert '"GET"' in lua_script(RestLoad("http://here", [("token1", "/one")]))


class TestOutcome:
    def test_a_run_with_a_failed_request_has_no_figures(self) -> None:
        with pytest.raises(InvalidRun, match="1 of 10 requests failed"):
            Outcome(10, 1, 0.1, 0.2).figures(1.0)

    def test_a_run_has_its_rate_and_its_latencies(self) -> None:
        figures = Outcome(10, 0, 0.1, 0.2).figures(2.0)
        assert figures == {"requests_per_s": 5.0, "request_p50_ms": 100.0, "request_p99_ms": 200.0}


class Api:
    """Counts requests by path and token, and remembers the ids of messages."""

    def __init__(self, *, status: int = 200) -> None:
        self.status = status
        self.paths: Counter[tuple[str, str]] = Counter()
        self.ids: list[str] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
                self.paths[head.split()[1], headers["Authorization"]] += 1
                if length := int(headers.get("Content-Length", 0)):
                    self.ids.append(json.loads(await reader.readexactly(length))["client_message_id"])
                writer.write(b"HTTP/1.1 %d Answer\r\nContent-Length: 2\r\n\r\n{}" % self.status)
        except asyncio.IncompleteReadError:
            writer.close()


async def run(api: Api, load_of: str | None = None) -> Outcome:
    server = await asyncio.start_server(api.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    places = [("token1", "/one"), ("token2", "/two")]
    try:
        return await run_own(RestLoad(f"http://127.0.0.1:{port}", places, sends=load_of), 0.2)
    finally:
        server.close()


class TestOurOwnClient:
    async def test_it_asks_for_every_place_over_all_connections(self) -> None:
        api = Api()
        outcome = await run(api)
        assert outcome.requests == sum(api.paths.values()) > CONNECTIONS
        assert outcome.failed == 0
        assert set(api.paths) == {("/one", "Bearer token1"), ("/two", "Bearer token2")}
        assert api.connections == CONNECTIONS

    async def test_each_send_is_another_message(self) -> None:
        api = Api(status=201)
        outcome = await run(api, "first")
        assert outcome.failed == 0
        assert len(set(api.ids)) == len(api.ids) == outcome.requests

    async def test_an_answer_that_is_no_success_has_failed(self) -> None:
        outcome = await run(Api(status=503))
        assert outcome.failed == outcome.requests > 0
