"""STORM: a thousand clients of one chat come back at the same moment, each with messages to fetch."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from time import perf_counter

from bench.crowd import connected, ignore
from bench.figures import Figures, percentile
from bench.frames import SYNC_BATCH, sequences, sync_request
from bench.stage import Stage
from bench.timeline import WrongDelivery
from bench.wire import Wire, connect
from bench.workloads import Setting

PATIENCE = 60.0
PAUSES = (0.1, 0.5)
"""Between two attempts to connect, at random within."""


async def storm(setting: Setting, *, clients: int = 1_000, missed: int = 200) -> Figures:
    """1,000 clients of one chat reconnect at once, 200 messages behind: how long until all are current?"""
    stage = setting.stage
    await asyncio.to_thread(stage.renew_web)
    setting.report(f"  making {clients:,} users")
    people = stage.people(clients)
    chat_id = stage.group(people[0], people[1:])
    tokens = [person.token for person in people]
    async with connected(stage.url, tokens, [ignore] * clients):
        setting.report(f"  {clients:,} connected; now they leave")
    setting.report(f"  {missed:,} messages are sent meanwhile")
    stage.fill(chat_id, people[0].user_id, missed)
    stage.settle()
    before, peak = stage.memory("web"), _Peak(stage)
    watching = asyncio.create_task(peak.watch())
    async with stage.metering() as meter:
        gun = perf_counter()
        returns = [_Return(stage.url, token, chat_id, missed) for token in tokens]
        outcomes = await asyncio.gather(*(each.run() for each in returns), return_exceptions=True)
    watching.cancel()
    for each in returns:
        each.leave()
    if failed := [outcome for outcome in outcomes if isinstance(outcome, BaseException)]:
        raise WrongDelivery(f"{len(failed)} clients did not become current; the first: {failed[0]!r}")
    for reason, count in sum((each.failures for each in returns), Counter[str]()).most_common():
        setting.report(f"  {count} attempts failed: {reason}")
    took = [each.current_at - gun for each in returns]
    attempts = sum(each.attempts for each in returns)
    return {
        "all_current_s": max(took),
        "current_p50_s": percentile(took, 0.5),
        "current_p99_s": percentile(took, 0.99),
        "web_peak_mib": peak.most / 2**20,
        "web_growth_mib": (peak.most - before) / 2**20,
        "dynamodb_requests": meter.counters["dynamodb_requests"],
        "dynamodb_requests_per_client": meter.counters["dynamodb_requests"] / clients,
        "dynamodb_items_per_client": meter.counters["dynamodb_items"] / clients,
        "redis_commands_per_client": meter.counters["redis_commands"] / clients,
        "retries": float(attempts - clients),
        "errors": float(sum(each.errors for each in returns)),
        **meter.figures(0),
    }


class _Return:
    """One client's way back: connect, again if need be, then page after page until nothing is missing."""

    def __init__(self, url: str, token: str, chat_id: str, missed: int) -> None:
        self._url, self._token, self._chat_id, self._missed = url, token, chat_id, missed
        self._last = 0
        self._wire: Wire | None = None
        self._page: asyncio.Queue[Sequence[int] | None] = asyncio.Queue()
        self.attempts = 0
        self.failures: Counter[str] = Counter()
        self.errors = 0
        self.current_at = 0.0

    async def run(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while self._last < self._missed:
                try:
                    await self._attempt()
                except OSError as error:
                    self.failures[str(error) or type(error).__name__] += 1
        self.current_at = perf_counter()

    def leave(self) -> None:
        if self._wire is not None:
            self._wire.close()

    async def _attempt(self) -> None:
        if self.attempts:
            await asyncio.sleep(random.uniform(*PAUSES))  # noqa: S311 - not a secret
        self.attempts += 1
        self._wire = await connect(self._url, self._token, self._receive, patience=PATIENCE / 2)
        while self._last < self._missed:
            self._wire.write(sync_request(self._chat_id, self._last))
            found = await self._next_page()
            if found is None:
                self.errors += 1
                await asyncio.sleep(random.uniform(*PAUSES))  # noqa: S311 - not a secret
            elif list(found) != list(range(self._last + 1, self._last + 1 + len(found))) or not found:
                raise WrongDelivery(f"a page after {self._last} that begins with {list(found)[:1]}")
            else:
                self._last = found[-1]

    async def _next_page(self) -> Sequence[int] | None:
        """None for an answer that was an error. Raises `ConnectionError` when the server hangs up."""
        wire = self._wire
        if wire is None:
            raise ConnectionError
        asking = asyncio.ensure_future(self._page.get())
        await asyncio.wait((asking, wire.closed), return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            asking.cancel()
            raise ConnectionError(f"closed with {wire.closed.result()}")
        return asking.result()

    def _receive(self, frame: bytes) -> None:
        if frame.startswith(SYNC_BATCH):
            self._page.put_nowait(sequences(frame))
        elif b'"type":"error"' in frame:
            self._page.put_nowait(None)


class _Peak:
    """The most memory that `web` has had while somebody watched."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.most = 0

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, self._stage.memory("web"))
            await asyncio.sleep(0.05)
