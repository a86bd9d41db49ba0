"""What a process leaves behind that dies between commit and publish."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from foundation.kernel.clock import SystemClock, from_iso
from foundation.kernel.ids import ChatId
from messaging.domain import Draft, Message
from staff.services.event_log import GRACE
from tests.doubles import eventually
from tests.e2e.system import Device, System
from tests.integration.messaging.services import Services


@contextmanager
def crashing(system: System) -> Iterator[Services]:
    """The services of a process that commits and never publishes."""
    services = Services(system.database, SystemClock())
    yield services
    services.close()


def store_past_kafka(system: System, chat_id: ChatId, sender: Device, content: str) -> Message:
    with crashing(system) as services:
        return services.send(Draft(chat_id, sender.user_id, str(uuid.uuid4()), content)).message


def wait_until_missing(message: Message) -> None:
    """An entry that is younger may have its event under way."""
    due = from_iso(message.created_at) + GRACE + timedelta(seconds=1)
    eventually(lambda: datetime.now(UTC) > due, within=20)
