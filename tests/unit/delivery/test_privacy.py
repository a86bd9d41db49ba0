"""The cache of privacy settings: a change is never covered by what was read before it."""

import asyncio
from collections.abc import Iterable
from typing import cast

from accounts.domain import Visibility
from accounts.services.directory import UserDirectory
from delivery.services import privacy
from delivery.services.privacy import PrivacySettings
from foundation.kernel.ids import UserId

ADA = UserId("ada")


class FakeDirectory:
    """Answers with what it knows when it is asked, once `gate` is open."""

    def __init__(self) -> None:
        self.hiding: set[UserId] = set()
        self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def find_visibility(self, user_ids: Iterable[UserId], *, is_strong: bool = False) -> dict[UserId, Visibility]:
        assert is_strong
        self.asked += 1
        found = {user_id: Visibility(read_receipts=user_id not in self.hiding) for user_id in user_ids}
        await self.gate.wait()
        return found


def settings_of(directory: FakeDirectory) -> PrivacySettings:
    return PrivacySettings(cast(UserDirectory, directory), monotonic=lambda: 100.0)


async def test_settings_are_read_once_until_a_notice() -> None:
    directory = FakeDirectory()
    settings = settings_of(directory)
    for _ in range(2):
        assert (await settings.of([ADA]))[ADA].read_receipts
    assert directory.asked == 1
    directory.hiding = {ADA}
    settings.forget([ADA])
    assert not (await settings.of([ADA]))[ADA].read_receipts


async def test_what_was_read_before_a_change_is_not_kept_after_it() -> None:
    for change in ("forget", "forget_all"):
        directory = FakeDirectory()
        settings = settings_of(directory)
        directory.gate.clear()
        reading = asyncio.ensure_future(settings.of([ADA]))
        await asyncio.sleep(0)
        assert directory.asked
        directory.hiding = {ADA}
        settings.forget([ADA]) if change == "forget" else settings.forget_all()
        directory.gate.set()
        await reading
        assert not (await settings.of([ADA]))[ADA].read_receipts


async def test_what_was_read_is_kept_while_others_change_theirs() -> None:
    directory = FakeDirectory()
    settings = settings_of(directory)
    directory.gate.clear()
    reading = asyncio.ensure_future(settings.of([ADA]))
    await asyncio.sleep(0)
    settings.forget([UserId("bob")])
    directory.gate.set()
    await reading
    await settings.of([ADA])
    assert (directory.asked, settings._reads) == (1, [])


async def test_without_a_notice_they_are_read_again_after_a_while() -> None:
    directory, now = FakeDirectory(), [100.0]
    settings = PrivacySettings(cast(UserDirectory, directory), monotonic=lambda: now[0])
    await settings.of([ADA])
    now[0] += privacy.TTL
    await settings.of([ADA])
    assert directory.asked == 2
