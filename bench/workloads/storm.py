"""STORM: a thousand clients of one chat reconnect at the same time, each with messages to fetch."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from time import perf_counter

from bench.connections import ignore, open_connections
from bench.figures import Figures, percentile
from bench.frames import SYNC_BATCH, sequences, sync_request
from bench.processes import PeakMemory
from bench.timeline import InvalidRun
from bench.websocket import WebSocket, connect
from bench.workloads import RunContext

RECOVERY_TIMEOUT = 60.0
FIRST_RETRY, LAST_RETRY = 0.5, 8.0
"""Seconds: a retry comes after a random part of twice the last delay, as the reference clients do it."""


async def storm(context: RunContext, *, clients: int = 1_000, missed: int = 200) -> Figures:
    """1,000 clients of one chat reconnect at once, 200 messages behind: how long until all are current?"""
    deployment = context.deployment
    await asyncio.to_thread(deployment.restart_web)
    context.report(f"  creating {clients:,} users")
    users = deployment.create_users(clients)
    chat_id = deployment.create_group(users[0], users[1:])
    tokens = [user.token for user in users]
    async with open_connections(deployment.url, tokens, [ignore] * clients):
        context.report(f"  {clients:,} connected; now they disconnect")
    context.report(f"  {missed:,} messages are sent meanwhile")
    deployment.fill(chat_id, users[0].user_id, missed)
    deployment.wait_until_idle()
    before, peak = deployment.memory("web"), PeakMemory(lambda: deployment.memory("web"))
    async with peak.sampling(), deployment.measure_window() as window:
        started = perf_counter()
        reconnecting = [ReconnectingClient(deployment.url, token, chat_id, missed) for token in tokens]
        outcomes = await asyncio.gather(*(each.run() for each in reconnecting), return_exceptions=True)
    for each in reconnecting:
        each.close()
    if failed := [outcome for outcome in outcomes if isinstance(outcome, BaseException)]:
        raise InvalidRun(f"{len(failed)} clients did not become current; the first: {failed[0]!r}")
    for reason, count in sum((each.failures for each in reconnecting), Counter[str]()).most_common():
        context.report(f"  {count} attempts failed: {reason}")
    durations = [each.current_at - started for each in reconnecting]
    attempts = sum(each.attempts for each in reconnecting)
    return {
        "all_current_s": max(durations),
        "current_p50_s": percentile(durations, 0.5),
        "current_p99_s": percentile(durations, 0.99),
        "web_peak_mib": peak.most / 2**20,
        "web_growth_mib": (peak.most - before) / 2**20,
        "dynamodb_requests": window.counters["dynamodb_requests"],
        "dynamodb_requests_per_client": window.counters["dynamodb_requests"] / clients,
        "dynamodb_items_per_client": window.counters["dynamodb_items"] / clients,
        "redis_commands_per_client": window.counters["redis_commands"] / clients,
        "retries": float(attempts - clients),
        "errors": float(sum(each.errors for each in reconnecting)),
        **window.figures(0),
    }


class ReconnectingClient:
    """Connects, with retries, then fetches page by page until it is current."""

    def __init__(self, url: str, token: str, chat_id: str, missed: int, *, timeout: float = RECOVERY_TIMEOUT) -> None:
        self._url, self._token, self._chat_id, self._missed = url, token, chat_id, missed
        self._timeout = timeout
        self._last = 0
        self._socket: WebSocket | None = None
        self._page: asyncio.Queue[Sequence[int] | None] = asyncio.Queue()
        self.attempts = 0
        self.failures: Counter[str] = Counter()
        self.errors = 0
        self.current_at = 0.0

    async def run(self) -> None:
        async with asyncio.timeout(self._timeout):
            while self._last < self._missed:
                try:
                    await self._attempt()
                except OSError as error:
                    self.failures[str(error) or type(error).__name__] += 1
        self.current_at = perf_counter()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    async def _attempt(self) -> None:
        if self.attempts:
            await self._back_off()
        self.attempts += 1
        self._socket = await connect(self._url, self._token, self._receive, open_timeout=self._timeout / 2)
        while self._last < self._missed:
            self._socket.write(sync_request(self._chat_id, self._last))
            found = await self._next_page()
            if found is None:
                self.errors += 1
                await self._back_off()
            elif list(found) != list(range(self._last + 1, self._last + 1 + len(found))) or not found:
                raise InvalidRun(f"a page after {self._last} that begins with {list(found)[:1]}")
            else:
                self._last = found[-1]

    async def _back_off(self) -> None:
        most = min(FIRST_RETRY * 2 ** (self.attempts + self.errors - 1), LAST_RETRY)
        await asyncio.sleep(random.uniform(0, most))  # noqa: S311 - not a secret

    async def _next_page(self) -> Sequence[int] | None:
        """The sequences of the next page, or None for an error frame. Raises `ConnectionError` if the server closes."""
        socket = self._socket
        if socket is None:
            raise ConnectionError
        waiting = asyncio.ensure_future(self._page.get())
        await asyncio.wait((waiting, socket.closed), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            raise ConnectionError(f"closed with {socket.closed.result()}")
        return waiting.result()

    def _receive(self, frame: bytes) -> None:
        if frame.startswith(SYNC_BATCH):
            self._page.put_nowait(sequences(frame))
        elif b'"type":"error"' in frame:
            self._page.put_nowait(None)
