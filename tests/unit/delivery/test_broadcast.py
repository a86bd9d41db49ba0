"""Live frames are published together, and dropped alone."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import orjson
from prometheus_client import REGISTRY

from delivery.gateway.broadcast import Broadcast, LiveFrame
from delivery.stores.audience import Addressee, Audience
from foundation.kernel.ids import ChatId

ONE, TWO = ChatId("one"), ChatId("two")


class FakeAudience:
    """One connection for each chat, and what was published. The members of `unknown` chats cannot be read."""

    def __init__(self, *unknown: ChatId) -> None:
        self.unknown = unknown
        self.published: list[tuple[str, Any]] = []

    async def connections_of(self, addressees: Sequence[Addressee]) -> list[list[str] | None]:
        return [None if chat_id in self.unknown else [f"gw.{chat_id}"] for chat_id, _ in addressees]

    async def publish(self, payloads: Mapping[str, bytes]) -> None:
        self.published += [(gateway_id, orjson.loads(payload)["frames"]) for gateway_id, payload in payloads.items()]


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("parley_live_frames_total", {"outcome": outcome}) or 0.0


async def test_a_chat_whose_members_cannot_be_read_takes_no_other_frame_with_it() -> None:
    audience = FakeAudience(ONE)
    broadcast = Broadcast(cast(Audience, audience))
    before = counted("dropped"), counted("published")
    await asyncio.gather(*[broadcast.send(LiveFrame(chat_id, {"chat_id": chat_id})) for chat_id in (ONE, TWO)])
    assert audience.published == [("gw", [{"connection_ids": ["gw.two"], "frame": {"chat_id": "two"}}])]
    assert (counted("dropped") - before[0], counted("published") - before[1]) == (1, 1)
