import asyncio
from collections import Counter
from collections.abc import Iterable
from time import monotonic

import pytest

from foundation.kernel.ids import ChatId
from foundation.stores.errors import StoreUnavailable
from messaging.services import homes as homes_module
from messaging.services.homes import LIST_TTL, HomeRegistration, Homes

CHATS = [ChatId(f"chat_{number}") for number in range(3_000)]


class FakeMonotonic:
    moment = 100.0

    def __call__(self) -> float:
        return self.moment


def homes_of(own: str, *names: str, monotonic: FakeMonotonic | None = None) -> Homes:
    clock = monotonic or FakeMonotonic()
    homes = Homes(monotonic=clock)
    homes.update(own, names, at=clock.moment)
    return homes


class TestTheHomeOfAChat:
    def test_all_processes_with_the_same_list_agree(self) -> None:
        names = ("a:1", "b:1", "c:1")
        found = [
            [homes_of(own, *order).find_home(chat) for chat in CHATS]
            for own, order in zip(names, (names, names[::-1], names), strict=True)
        ]
        assert found[0] == found[1] == found[2]

    def test_chats_are_spread_evenly(self) -> None:
        homes = homes_of("a:1", "a:1", "b:1", "c:1")
        counts = Counter(homes.find_home(chat) for chat in CHATS)
        assert set(counts) == {"a:1", "b:1", "c:1"}
        assert all(850 < count < 1150 for count in counts.values())

    def test_a_process_that_leaves_moves_only_its_own_chats(self) -> None:
        before, after = homes_of("a:1", "a:1", "b:1", "c:1"), homes_of("a:1", "a:1", "c:1")
        assert all(after.find_home(chat) == before.find_home(chat) for chat in CHATS if before.find_home(chat) != "b:1")

    def test_a_new_epoch_moves_no_chat(self) -> None:
        before, after = homes_of("a:1", "a:1", "b:1"), homes_of("a:1", "a:1", "b:2")
        assert [before.find_home(chat) == "a:1" for chat in CHATS] == [after.find_home(chat) == "a:1" for chat in CHATS]


class TestWithoutAList:
    def test_a_process_whose_list_names_nobody_else_is_the_home_of_every_chat(self) -> None:
        homes = Homes(is_alone=False)
        assert not any(homes.is_home(chat) for chat in CHATS)
        homes.update("a:1", ["a:1"], at=monotonic())
        assert all(homes.is_home(chat) for chat in CHATS)

    def test_a_process_that_enters_no_list_is_the_home_of_every_chat(self) -> None:
        assert all(Homes().is_home(chat) for chat in CHATS)

    def test_an_empty_list_tells_a_process_without_a_name_nothing(self) -> None:
        """Everybody may have withdrawn at once, because Redis was away."""
        one_of_several, alone = homes_of("a:1", "a:1", "b:1"), homes_of("a:1", "a:1")
        for homes in (one_of_several, alone):
            homes.withdraw()
            homes.update(None, [], at=101)
        assert (one_of_several.is_alone, alone.is_alone) == (False, True)

    def test_a_process_without_a_name_that_sees_another_is_not_alone(self) -> None:
        homes = Homes()
        homes.update(None, ["b:1"], at=101)
        assert not homes.is_alone

    def test_a_list_without_oneself_is_not_used(self) -> None:
        homes = homes_of("a:1", "b:1", "c:1")
        assert homes.find_home(CHATS[0]) is None
        assert not any(homes.is_home(chat) for chat in CHATS)

    def test_a_list_that_is_too_old_makes_no_process_a_home(self) -> None:
        clock = FakeMonotonic()
        homes = homes_of("a:1", "a:1", "b:1", monotonic=clock)
        assert any(homes.is_home(chat) for chat in CHATS)
        clock.moment += LIST_TTL
        assert not homes.names
        assert not any(homes.is_home(chat) for chat in CHATS)

    def test_a_process_that_was_alone_stays_the_home_while_redis_is_away(self) -> None:
        clock = FakeMonotonic()
        homes = homes_of("a:1", "a:1", monotonic=clock)
        clock.moment += 60
        homes.expire()
        assert all(homes.is_home(chat) for chat in CHATS)


class TestChanges:
    def test_only_a_list_that_differs_is_a_change(self) -> None:
        homes, changes = homes_of("a:1", "a:1", "b:1"), []
        homes.subscribe(lambda: changes.append(homes.names))
        homes.update("a:1", ["b:1", "a:1"], at=101)
        assert changes == []
        homes.update("a:1", ["a:1", "b:1", "c:1"], at=101)
        assert changes == [("a:1", "b:1", "c:1")]

    def test_a_list_that_expires_is_a_change_once(self) -> None:
        clock = FakeMonotonic()
        homes, changes = homes_of("a:1", "a:1", "b:1", monotonic=clock), []
        homes.subscribe(lambda: changes.append(homes.names))
        for _ in range(3):
            clock.moment += LIST_TTL
            homes.expire()
        assert changes == [()]


class FakeList:
    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.is_away = False

    async def refresh(self, name: str | None, *, former: Iterable[str] = ()) -> list[str]:
        if self.is_away:
            raise StoreUnavailable
        self.names |= set() if name is None else {name}
        self.names -= set(former)
        return list(self.names)


def fail() -> None:
    raise ZeroDivisionError


class BrokenOnceList(FakeList):
    is_broken = True

    async def refresh(self, name: str | None, *, former: Iterable[str] = ()) -> list[str]:
        if self.is_broken:
            self.is_broken = False
            raise RuntimeError("boom")
        return await super().refresh(name, former=former)


class TestRegistration:
    async def test_a_process_that_starts_while_redis_is_away_is_no_home_until_it_has_a_list(self) -> None:
        store, homes = FakeList(), Homes(is_alone=False)
        registration = HomeRegistration(homes, store)
        store.is_away = True
        await registration.refresh()
        assert not any(homes.is_home(chat) for chat in CHATS)
        store.is_away = False
        await registration.refresh()
        assert not homes.is_alone
        registration.enter("a:1")
        await registration.refresh()
        assert homes.is_alone

    async def test_a_process_enters_itself_and_takes_the_list(self) -> None:
        homes = Homes()
        registration = HomeRegistration(homes, FakeList("b:1"))
        await registration.refresh()
        assert homes.find_home(CHATS[0]) is None
        registration.enter("a:1")
        await registration.refresh()
        assert homes.names == ("a:1", "b:1")

    async def test_a_new_epoch_replaces_the_former_one(self) -> None:
        store, homes = FakeList("b:1"), Homes()
        registration = HomeRegistration(homes, store)
        registration.enter("a:1")
        await registration.refresh()
        registration.withdraw()
        assert not any(homes.is_home(chat) for chat in CHATS)
        registration.enter("a:2")
        await registration.refresh()
        assert store.names == {"a:2", "b:1"}
        assert any(homes.is_home(chat) for chat in CHATS)

    async def test_without_redis_the_last_list_holds_until_it_is_too_old(self) -> None:
        store, clock = FakeList("b:1"), FakeMonotonic()
        homes = Homes(monotonic=clock)
        registration = HomeRegistration(homes, store, monotonic=clock)
        registration.enter("a:1")
        await registration.refresh()
        store.is_away = True
        listed = []
        for _ in range(2):
            clock.moment += LIST_TTL / 2
            await registration.refresh()
            listed.append((homes.names, homes.is_alone))
        assert listed == [(("a:1", "b:1"), False), ((), False)]

    async def test_a_process_that_leaves_is_off_the_list_and_stays_off(self) -> None:
        store, homes = FakeList("b:1"), Homes()
        registration = HomeRegistration(homes, store)
        registration.enter("a:1")
        await registration.refresh()
        await registration.leave()
        registration.enter("a:2")
        await registration.refresh()
        assert store.names == {"b:1"}
        # It still sees whether the homes of what it handed over are there.
        assert homes.names == ("b:1",)
        assert homes.find_home(CHATS[0]) is None

    async def test_a_process_alone_stays_the_home_while_it_leaves(self) -> None:
        homes = Homes()
        registration = HomeRegistration(homes, FakeList())
        registration.enter("a:1")
        await registration.refresh()
        await registration.leave()
        assert homes.is_alone

    async def test_an_unexpected_error_does_not_take_the_process_off_the_list(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(homes_module, "REFRESH_EVERY", 0.001)
        store, homes, refreshed = BrokenOnceList(), Homes(is_alone=False), asyncio.Event()
        homes.subscribe(fail)
        homes.subscribe(refreshed.set)
        registration = HomeRegistration(homes, store)
        registration.enter("a:1")
        running = asyncio.create_task(registration.run())
        await asyncio.wait_for(refreshed.wait(), 10)
        registration.stop()
        await running
        assert homes.names == ("a:1",)
        assert "boom" in caplog.text
        assert "ZeroDivisionError" in caplog.text
