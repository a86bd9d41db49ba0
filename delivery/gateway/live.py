"""What happens to live frames, watched presence and privacy settings when the gateway hears of something."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import Any

import orjson

from delivery.gateway.presence import PresenceWatchers
from delivery.gateway.sockets import Socket
from delivery.gateway.typing import TypingForwarder
from delivery.services.presence import Presence
from delivery.services.privacy import PrivacySettings
from foundation.kernel.errors import Unavailable
from foundation.kernel.ids import UserId

log = logging.getLogger(__name__)

Deliver = Callable[[dict[str, Any], Collection[Socket]], Awaitable[None]]


class LiveUpdates:
    """For one event loop. No method waits. `deliver` has a function for each type of live frame."""

    def __init__(
        self,
        deliver: Mapping[str, Deliver],
        *,
        presence: Presence,
        privacy: PrivacySettings,
        watchers: PresenceWatchers,
        typing: TypingForwarder,
    ) -> None:
        self._deliver = deliver
        self._presence = presence
        self._privacy = privacy
        self._watchers = watchers
        self._typing = typing
        self._tasks: set[asyncio.Task[None]] = set()

    def on_payload(self, payload: bytes, sockets: Mapping[str, Socket]) -> None:
        """Deliver a payload of `Broadcast`. A payload that cannot be read is logged, an unknown type is skipped."""
        try:
            addressed = [
                (each["frame"], self._deliver.get(each["frame"]["type"]), each["connection_ids"])
                for each in orjson.loads(payload)["frames"]
            ]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            log.exception("live frames cannot be read")
            return
        for frame, deliver, connection_ids in addressed:
            receivers = [sockets[each] for each in connection_ids if each in sockets]
            if receivers and deliver is not None:
                self._start(self._run(deliver(frame, receivers)))

    def on_notice(self, frame: Mapping[str, Any]) -> None:
        """A frame of the fanout that is no message."""
        if frame.get("type") == "membership_changed" and frame.get("change_type") == "removed":
            self._watchers.member_left(frame["chat_id"], frame["user_id"])
            self._typing.member_left(frame["chat_id"], frame["user_id"])

    def on_users_gone(self, user_ids: Collection[UserId]) -> None:
        """The last connections of these users have ended."""
        self._start(self._run(self._presence.leave(user_ids)))

    def on_privacy_changed(self, user_ids: Collection[UserId]) -> None:
        self._privacy.forget(user_ids)
        self._watchers.privacy_changed(user_ids)

    def on_notices_lost(self) -> None:
        """Notices of changed privacy settings may have been lost."""
        self._privacy.forget_all()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, work: Awaitable[None]) -> None:
        try:
            await work
        except Unavailable as error:
            log.warning("a live update was dropped: %s", error.detail)
        except Exception:
            log.exception("a live update failed")
