"""Publishes live frames, which nobody keeps, to the online members of small chats: receipts and typing.

Frames that arrive while others are being published share the next round trips. Without Redis they are dropped.
"""

import logging
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import orjson
from prometheus_client import Counter

from delivery.gateway.coalescer import Coalescer
from delivery.stores.audience import Audience
from delivery.stores.connections import gateway_of
from foundation.kernel.errors import Unavailable
from foundation.kernel.ids import ChatId, UserId

log = logging.getLogger(__name__)

PUBLISHED = Counter("parley_live_frames_total", "Live frames that were published to gateways, or dropped.", ["outcome"])

LIVE = b'{"type":"live"'


@dataclass(frozen=True, slots=True)
class LiveFrame:
    """A frame for the members of a chat, except the devices of one user."""

    chat_id: ChatId
    frame: dict[str, Any]
    except_user: UserId | None = None


class Broadcast:
    """For one event loop."""

    def __init__(self, audience: Audience) -> None:
        self._audience = audience
        self._publishing = Coalescer(self._publish)

    async def send(self, frame: LiveFrame) -> None:
        """Return when the frame was published or dropped."""
        await self._publishing.add(frame)

    async def _publish(self, frames: list[LiveFrame]) -> None:
        try:
            receivers = await self._audience.connections_of([(each.chat_id, each.except_user) for each in frames])
            by_gateway: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for each, connection_ids in zip(frames, receivers, strict=True):
                for gateway_id, ids in _by_gateway(connection_ids or []).items():
                    by_gateway[gateway_id].append({"connection_ids": ids, "frame": each.frame})
            if by_gateway:
                await self._audience.publish(
                    {gateway_id: _payload(addressed) for gateway_id, addressed in by_gateway.items()}
                )
        except Unavailable as error:
            PUBLISHED.labels("dropped").inc(len(frames))
            log.info("%d live frames are dropped: %s", len(frames), error.detail)
        else:
            without_members = receivers.count(None)
            PUBLISHED.labels("dropped").inc(without_members)
            PUBLISHED.labels("published").inc(len(frames) - without_members)


def _by_gateway(connection_ids: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for connection_id in connection_ids:
        found[gateway_of(connection_id)].append(connection_id)
    return found


def _payload(addressed: list[dict[str, Any]]) -> bytes:
    """`deliveries` is empty for gateways of a version that knows only those."""
    return orjson.dumps({"type": "live", "frames": addressed, "deliveries": []})
