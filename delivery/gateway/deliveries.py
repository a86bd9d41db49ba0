"""What the fanout publishes to this gateway: decoded, and written to the sockets that it names.

Pub/sub loses what is published while Redis is away; `on_lost` is called when the subscription is back.
"""

import asyncio
import logging
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import orjson
import redis.asyncio
from prometheus_client import Counter
from redis.exceptions import RedisError

from delivery.gateway.broadcast import LIVE
from delivery.gateway.frames import Frame, Messages, Plain, coalesce, plain
from delivery.gateway.live import LiveUpdates
from delivery.gateway.sockets import Socket
from delivery.stores.connections import deliver_channel
from foundation.kernel.tracing import trace_id_of
from foundation.stores.redis import subscriptions

log = logging.getLogger(__name__)

DELIVERED = Counter("parley_gateway_deliveries_total", "Messages and notices handed to sockets.")

_MESSAGE_ID = re.compile(rb'"message_id":"([^"]+)"')
MAX_PAYLOADS = 200
# Deliveries pause this many times as long as the last ones took, and at most so many seconds.
PAUSE_FACTOR = 3
MAX_PAUSE = 0.01

OnNotice = Callable[[Mapping[str, Any]], None]


class Deliveries:
    """One per process, for its event loop. `sockets` are those that can be delivered to, by connection id."""

    def __init__(
        self,
        client: "redis.asyncio.Redis",
        *,
        gateway_id: str,
        sockets: Mapping[str, Socket],
        live: LiveUpdates,
        on_lost: Callable[[], None],
    ) -> None:
        self._client = client
        self._channel = deliver_channel(gateway_id)
        self._sockets = sockets
        self._live = live
        self._on_lost = on_lost
        self.subscribed = asyncio.Event()
        self._has_been_subscribed = False
        self._payloads: list[bytes] = []
        self._paused_until = 0.0
        self._delivered_to: set[str] = set()

    async def run(self) -> None:
        """Receive payloads; subscribe again after a jittered pause whenever Redis, or a bug, ends it."""
        while True:
            try:
                await self._receive()
            except (RedisError, OSError) as error:
                log.warning("deliveries: Redis is away (%s)", type(error).__name__)
            except Exception:
                log.exception("deliveries failed")
            await asyncio.sleep(random.uniform(0.1, 0.5))  # noqa: S311 - not a secret

    async def _receive(self) -> None:
        """Deliver what the fanout publishes to this gateway.

        The client library reconnects by itself; a second confirmation of the subscription tells that it did.
        """
        try:
            async with self._client.pubsub() as pubsub:
                await pubsub.subscribe(self._channel)
                while True:
                    message = await pubsub.get_message(timeout=subscriptions.CHECK_EVERY)
                    if message is None:
                        message = await subscriptions.answer_to_ping(pubsub)
                    if message["type"] == "subscribe":
                        self._on_subscribed()
                    elif message["type"] == "message":
                        self._on_payload(message["data"])
        finally:
            self.subscribed.clear()

    def _on_subscribed(self) -> None:
        """Sockets that are there already were registered before, and deliveries to them may have been lost."""
        if self._has_been_subscribed or self._sockets:
            self._on_lost()
        self._has_been_subscribed = True
        self.subscribed.set()

    def _on_payload(self, payload: bytes) -> None:
        if payload.startswith(LIVE):
            self._live.on_payload(payload, self._sockets)
        else:
            self._schedule_delivery(payload)

    def _schedule_delivery(self, payload: bytes) -> None:
        """Deliver a payload together with those that arrive meanwhile: one write for each socket.

        Deliveries to the same sockets pause between writes, which leaves most of the time for clients' frames.
        """
        self._payloads.append(payload)
        if len(self._payloads) == 1:
            loop = asyncio.get_running_loop()
            loop.call_later(max(0.0, self._paused_until - loop.time()), self._deliver_waiting)
        elif len(self._payloads) >= MAX_PAYLOADS:
            self._deliver_waiting()

    def _deliver_waiting(self) -> None:
        payloads, self._payloads = self._payloads, []
        if not payloads:  # delivered already, because there were too many to wait
            return
        loop = asyncio.get_running_loop()
        started = loop.time()
        delivered_to = self.deliver(payloads)
        ended = loop.time()
        is_repeated = not delivered_to.isdisjoint(self._delivered_to)
        self._paused_until = ended + (min(PAUSE_FACTOR * (ended - started), MAX_PAUSE) if is_repeated else 0.0)
        self._delivered_to = delivered_to

    def deliver(self, payloads: Sequence[bytes]) -> set[str]:
        """Give each connection its frames; return the connections that got any."""
        count, delivered_to = 0, set()
        is_logged = log.isEnabledFor(logging.DEBUG)
        traceparents = traceparents_in(payloads) if is_logged else {}
        for connection_id, ready in group_by_connection(payloads, on_notice=self._live.on_notice):
            socket = self._sockets.get(connection_id)
            if socket is not None:
                for frame in ready:
                    socket.deliver(frame)
                count += len(ready)
                delivered_to.add(connection_id)
                if is_logged:
                    _log_delivered(connection_id, ready, traceparents)
        DELIVERED.inc(count)
        return delivered_to


def group_by_connection(
    payloads: Iterable[bytes], *, on_notice: OnNotice | None = None
) -> Iterator[tuple[str, list[Frame]]]:
    """Each connection with its frames, in the order in which the fanout published them.

    Connections with the same frames share them, encoded once. A payload that cannot be read is logged. `on_notice` is
    called with the frames that are no messages.
    """
    waiting: dict[str, list[Frame]] = {}
    for connection_ids, frames in chain.from_iterable(_deliveries(payload, on_notice) for payload in payloads):
        for connection_id in connection_ids:
            waiting.setdefault(connection_id, []).extend(frames)
    shared: dict[tuple[int, ...], list[Frame]] = {}
    for connection_id, frames in waiting.items():
        identity = tuple(map(id, frames))
        if identity not in shared:
            shared[identity] = coalesce(frames)
        yield connection_id, shared[identity]


def _deliveries(payload: bytes, on_notice: OnNotice | None) -> list[tuple[list[str], list[Frame]]]:
    try:
        return [
            (delivery["connection_ids"], delivered(delivery["messages"], on_notice=on_notice))
            for delivery in orjson.loads(payload)["deliveries"]
        ]
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        log.exception("a delivery cannot be read")
        return []


def traceparents_in(payloads: Iterable[bytes]) -> dict[str, str]:
    """The traces of the payloads' messages, by message id, where their senders gave one. For the logs."""
    traceparents: dict[str, str] = {}
    for payload in payloads:
        try:
            for delivery in orjson.loads(payload)["deliveries"]:
                traceparents.update(delivery.get("traceparents", {}))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
            log.debug("a delivery has no traces that can be read")
    return traceparents


def delivered(frames: Sequence[dict[str, Any]], *, on_notice: OnNotice | None = None) -> list[Frame]:
    """The frames that the fanout published, ready to be written."""
    return coalesce(
        [_message(frame) if frame.get("type") == "message" else _notice(frame, on_notice) for frame in frames]
    )


def _notice(frame: dict[str, Any], on_notice: OnNotice | None) -> Plain:
    if on_notice is not None:
        on_notice(frame)
    return plain(frame)


def _message(frame: dict[str, Any]) -> Messages:
    del frame["type"]
    return Messages(frame["chat_id"], frame["sequence"], frame["sequence"], (orjson.dumps(frame),))


def _log_delivered(connection_id: str, ready: Iterable[Frame], traceparents: Mapping[str, str]) -> None:
    for frame in ready:
        for message_id in _MESSAGE_ID.findall(frame.payload):
            ids = {"message_id": message_id.decode(), "connection_id": connection_id}
            if (traceparent := traceparents.get(ids["message_id"])) is not None:
                ids["trace_id"] = trace_id_of(traceparent)
            log.debug("delivered %s to %s", ids["message_id"], connection_id, extra=ids)
