"""Token verification: which sessions are accepted, what is cached, and what overrules the cache."""

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import cast

import pytest

from accounts.domain import Session, SessionState
from accounts.errors import AccountSuspended, SessionRevoked
from accounts.services.tokens import AccessTokens
from accounts.services.verification import CACHE_TTL, SessionCache, SessionCheck, TokenVerifier
from accounts.stores.sessions import SessionStore
from foundation.kernel.ids import SessionId, UserId
from foundation.stores.errors import StoreUnavailable
from tests.doubles import SettableClock

ADA = UserId("user_01KG7Y4QZ8M3T5V6W7X8Y9Z0A1")
BOB = UserId("user_01KG7Y4QZ8M3T5V6W7X8Y9Z0B2")
SESSION = SessionId("sess_01KG7Y4QZ9B2C3D4E5F6G7H8J9")


class Table:
    """Sessions in memory, counting how often they are read."""

    def __init__(self) -> None:
        self.sessions: dict[SessionId, Session] = {}
        self.suspended: set[UserId] = set()
        self.reads = 0
        self.away = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def find_state(self, session_id: SessionId, user_id: UserId, *, now: datetime) -> SessionState:
        return (await self.confirm_states([(session_id, user_id)], now=now))[session_id]

    async def confirm_states(
        self, pairs: Iterable[tuple[SessionId, UserId]], *, now: datetime
    ) -> dict[SessionId, SessionState]:
        self.reads += 1
        if self.away:
            raise StoreUnavailable("no DynamoDB")
        found = {
            session_id: SessionState(self.sessions.get(session_id), is_suspended=user_id in self.suspended)
            for session_id, user_id in pairs
        }
        await self.gate.wait()
        return found


async def let_tasks_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Authentication:
    def __init__(self) -> None:
        self.clock = SettableClock()
        self.table = Table()
        self.tokens = AccessTokens({"k": "k" * 64}, clock=self.clock)
        self.verifier = TokenVerifier(tokens=self.tokens, sessions=cast(SessionStore, self.table), clock=self.clock)
        self.table.sessions[SESSION] = Session(
            session_id=SESSION,
            user_id=ADA,
            device_id="laptop",
            refresh_token_hash="",
            created_at=self.clock.now(),
            expires_at=self.clock.now() + timedelta(minutes=10),
        )
        self.token = self.tokens.issue(user_id=ADA, session_id=SESSION)


@pytest.fixture
def auth() -> Authentication:
    return Authentication()


class TestVerify:
    async def test_an_active_session_is_accepted(self, auth: Authentication) -> None:
        caller = await auth.verifier.verify(auth.token)
        assert (caller.user_id, caller.session_id, caller.device_id) == (ADA, SESSION, "laptop")

    async def test_one_check_serves_a_few_seconds(self, auth: Authentication) -> None:
        for _ in range(10):
            await auth.verifier.verify(auth.token)
        assert auth.table.reads == 1
        auth.clock.advance(seconds=CACHE_TTL.total_seconds())
        await auth.verifier.verify(auth.token)
        assert auth.table.reads == 2

    async def test_a_session_that_cannot_be_checked_is_refused(self, auth: Authentication) -> None:
        auth.table.away = True
        with pytest.raises(StoreUnavailable):
            await auth.verifier.verify(auth.token)

    async def test_a_session_of_another_user_is_refused(self, auth: Authentication) -> None:
        with pytest.raises(SessionRevoked):
            await auth.verifier.verify(auth.tokens.issue(user_id=BOB, session_id=SESSION))

    async def test_a_session_that_expires_while_cached_is_refused(self, auth: Authentication) -> None:
        auth.clock.advance(minutes=9, seconds=59)
        await auth.verifier.verify(auth.token)
        auth.clock.advance(seconds=1)
        with pytest.raises(SessionRevoked):
            await auth.verifier.verify(auth.token)
        assert auth.table.reads == 1

    async def test_a_revoked_session_costs_no_read_per_request(self, auth: Authentication) -> None:
        auth.table.sessions.clear()
        for _ in range(10):
            with pytest.raises(SessionRevoked):
                await auth.verifier.verify(auth.token)
        assert auth.table.reads == 1

    async def test_a_clock_set_back_makes_the_cache_stale(self, auth: Authentication) -> None:
        await auth.verifier.verify(auth.token)
        auth.clock.advance(minutes=-5)
        await auth.verifier.verify(auth.token)
        assert auth.table.reads == 2


class TestSuspension:
    async def test_a_suspended_user_is_refused_and_after_the_restoration_accepted(self, auth: Authentication) -> None:
        auth.table.suspended.add(ADA)
        with pytest.raises(AccountSuspended):
            await auth.verifier.verify(auth.token)
        with pytest.raises(AccountSuspended):
            await auth.verifier.verify_now(auth.token)
        auth.table.suspended.clear()
        auth.verifier.forget_users({ADA})
        assert (await auth.verifier.verify(auth.token)).user_id == ADA

    async def test_a_notice_overrules_the_cache(self, auth: Authentication) -> None:
        await auth.verifier.verify(auth.token)
        auth.table.suspended.add(ADA)
        await auth.verifier.verify(auth.token)
        auth.verifier.forget_users({ADA})
        with pytest.raises(AccountSuspended):
            await auth.verifier.verify(auth.token)

    async def test_without_a_notice_the_cache_ends_by_itself(self, auth: Authentication) -> None:
        await auth.verifier.verify(auth.token)
        auth.table.suspended.add(ADA)
        auth.clock.advance(seconds=CACHE_TTL.total_seconds())
        with pytest.raises(AccountSuspended):
            await auth.verifier.verify(auth.token)

    async def test_open_sockets_of_suspended_users_are_found_and_their_sessions_stay(
        self, auth: Authentication
    ) -> None:
        auth.table.suspended.add(ADA)
        assert await auth.verifier.ended_among({SESSION: ADA}) == {SESSION}
        auth.table.suspended.clear()
        assert (await auth.verifier.verify(auth.token)).user_id == ADA


class TestNotices:
    async def test_a_notice_overrules_the_cache(self, auth: Authentication) -> None:
        await auth.verifier.verify(auth.token)
        auth.verifier.mark_ended([SESSION])
        with pytest.raises(SessionRevoked):
            await auth.verifier.verify(auth.token)

    async def test_a_notice_overrules_a_check_that_began_before_it(self, auth: Authentication) -> None:
        cache, began = SessionCache(), auth.clock.now()
        cache.remember(SESSION, SessionCheck(user_id=None, expires_at=None, checked_at=began + timedelta(seconds=1)))
        slow = SessionCheck(user_id=ADA, expires_at=began + timedelta(hours=1), checked_at=began)
        assert cache.remember(SESSION, slow).user_id is None

    async def test_sockets_bypass_the_cache(self, auth: Authentication) -> None:
        await auth.verifier.verify(auth.token)
        auth.table.sessions.clear()
        with pytest.raises(SessionRevoked):
            await auth.verifier.verify_now(auth.token)


class TestManySockets:
    async def test_those_that_wait_share_a_read_and_none_that_has_begun(self, auth: Authentication) -> None:
        auth.table.gate.clear()
        first = asyncio.create_task(auth.verifier.verify_now(auth.token))
        await let_tasks_run()
        auth.table.sessions.clear()
        later = [asyncio.create_task(auth.verifier.verify_now(auth.token)) for _ in range(50)]
        await let_tasks_run()
        auth.table.gate.set()
        outcomes = await asyncio.gather(*later, return_exceptions=True)
        assert all(isinstance(outcome, SessionRevoked) for outcome in outcomes)
        assert auth.table.reads == 2
        await asyncio.wait([first])

    async def test_one_that_gives_up_takes_no_other_with_it(self, auth: Authentication) -> None:
        auth.table.gate.clear()
        one, other = (asyncio.create_task(auth.verifier.verify_now(auth.token)) for _ in range(2))
        await let_tasks_run()
        one.cancel()
        auth.table.gate.set()
        assert (await other).user_id == ADA

    async def test_a_store_that_is_away_refuses_all(self, auth: Authentication) -> None:
        auth.table.away = True
        asked = [auth.verifier.verify_now(auth.token) for _ in range(3)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3


def test_the_cache_holds_no_more_than_its_capacity() -> None:
    cache, now = SessionCache(capacity=2), SettableClock().now()
    check = SessionCheck(user_id=ADA, expires_at=now, checked_at=now)
    ids = [SessionId(f"sess_{number}") for number in range(3)]
    for session_id in ids:
        cache.remember(session_id, check)
    assert [cache.find(session_id, now) for session_id in ids] == [None, check, check]
