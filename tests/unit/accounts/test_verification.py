"""Token verification: which sessions are accepted, what is cached, and what overrules the cache."""

from datetime import datetime, timedelta
from typing import cast

import pytest

from accounts.domain import Session
from accounts.errors import SessionRevoked
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
        self.reads = 0
        self.away = False

    def find(self, session_id: SessionId, *, now: datetime) -> Session | None:
        self.reads += 1
        if self.away:
            raise StoreUnavailable("no DynamoDB")
        return self.sessions.get(session_id)

    confirm = find


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
    def test_an_active_session_is_accepted(self, auth: Authentication) -> None:
        caller = auth.verifier.verify(auth.token)
        assert (caller.user_id, caller.session_id, caller.device_id) == (ADA, SESSION, "laptop")

    def test_one_check_serves_a_few_seconds(self, auth: Authentication) -> None:
        for _ in range(10):
            auth.verifier.verify(auth.token)
        assert auth.table.reads == 1
        auth.clock.advance(seconds=CACHE_TTL.total_seconds())
        auth.verifier.verify(auth.token)
        assert auth.table.reads == 2

    def test_a_session_that_cannot_be_checked_is_refused(self, auth: Authentication) -> None:
        auth.table.away = True
        with pytest.raises(StoreUnavailable):
            auth.verifier.verify(auth.token)

    def test_a_session_of_another_user_is_refused(self, auth: Authentication) -> None:
        with pytest.raises(SessionRevoked):
            auth.verifier.verify(auth.tokens.issue(user_id=BOB, session_id=SESSION))

    def test_a_session_that_expires_while_cached_is_refused(self, auth: Authentication) -> None:
        auth.clock.advance(minutes=9, seconds=59)
        auth.verifier.verify(auth.token)
        auth.clock.advance(seconds=1)
        with pytest.raises(SessionRevoked):
            auth.verifier.verify(auth.token)
        assert auth.table.reads == 1

    def test_a_revoked_session_costs_no_read_per_request(self, auth: Authentication) -> None:
        auth.table.sessions.clear()
        for _ in range(10):
            with pytest.raises(SessionRevoked):
                auth.verifier.verify(auth.token)
        assert auth.table.reads == 1

    def test_a_clock_set_back_makes_the_cache_stale(self, auth: Authentication) -> None:
        auth.verifier.verify(auth.token)
        auth.clock.advance(minutes=-5)
        auth.verifier.verify(auth.token)
        assert auth.table.reads == 2


class TestNotices:
    def test_a_notice_overrules_the_cache(self, auth: Authentication) -> None:
        auth.verifier.verify(auth.token)
        auth.verifier.mark_ended([SESSION])
        with pytest.raises(SessionRevoked):
            auth.verifier.verify(auth.token)

    def test_a_notice_overrules_a_check_that_began_before_it(self, auth: Authentication) -> None:
        cache, began = SessionCache(), auth.clock.now()
        cache.remember(SESSION, SessionCheck(user_id=None, expires_at=None, checked_at=began + timedelta(seconds=1)))
        slow = SessionCheck(user_id=ADA, expires_at=began + timedelta(hours=1), checked_at=began)
        assert cache.remember(SESSION, slow).user_id is None

    def test_sockets_bypass_the_cache(self, auth: Authentication) -> None:
        auth.verifier.verify(auth.token)
        auth.table.sessions.clear()
        with pytest.raises(SessionRevoked):
            auth.verifier.verify_now(auth.token)


def test_the_cache_holds_no_more_than_its_capacity() -> None:
    cache, now = SessionCache(capacity=2), SettableClock().now()
    check = SessionCheck(user_id=ADA, expires_at=now, checked_at=now)
    ids = [SessionId(f"sess_{number}") for number in range(3)]
    for session_id in ids:
        cache.remember(session_id, check)
    assert [cache.find(session_id, now) for session_id in ids] == [None, check, check]
