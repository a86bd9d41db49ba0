"""Who is let in, what is remembered, and what overrules it."""

from datetime import datetime, timedelta
from typing import cast

import pytest

from accounts.domain import Session
from accounts.errors import SessionRevoked
from accounts.services.tokens import AccessTokens
from accounts.services.verification import REMEMBERED_FOR, RememberedSessions, Standing, TokenVerifier
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


class Door:
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
def door() -> Door:
    return Door()


class TestVerify:
    def test_a_living_session_is_let_in(self, door: Door) -> None:
        caller = door.verifier.verify(door.token)
        assert (caller.user_id, caller.session_id, caller.device_id) == (ADA, SESSION, "laptop")

    def test_one_check_serves_a_few_seconds(self, door: Door) -> None:
        for _ in range(10):
            door.verifier.verify(door.token)
        assert door.table.reads == 1
        door.clock.advance(seconds=REMEMBERED_FOR.total_seconds())
        door.verifier.verify(door.token)
        assert door.table.reads == 2

    def test_a_session_that_cannot_be_checked_is_not_let_in(self, door: Door) -> None:
        door.table.away = True
        with pytest.raises(StoreUnavailable):
            door.verifier.verify(door.token)

    def test_someone_elses_session_is_not_let_in(self, door: Door) -> None:
        with pytest.raises(SessionRevoked):
            door.verifier.verify(door.tokens.issue(user_id=BOB, session_id=SESSION))

    def test_a_session_that_expires_while_remembered_is_not_let_in(self, door: Door) -> None:
        door.clock.advance(minutes=9, seconds=59)
        door.verifier.verify(door.token)
        door.clock.advance(seconds=1)
        with pytest.raises(SessionRevoked):
            door.verifier.verify(door.token)
        assert door.table.reads == 1

    def test_a_revoked_session_costs_no_read_per_request(self, door: Door) -> None:
        door.table.sessions.clear()
        for _ in range(10):
            with pytest.raises(SessionRevoked):
                door.verifier.verify(door.token)
        assert door.table.reads == 1

    def test_a_clock_set_back_makes_what_is_remembered_old(self, door: Door) -> None:
        door.verifier.verify(door.token)
        door.clock.advance(minutes=-5)
        door.verifier.verify(door.token)
        assert door.table.reads == 2


class TestNotices:
    def test_a_notice_overrules_what_is_remembered(self, door: Door) -> None:
        door.verifier.verify(door.token)
        door.verifier.forget([SESSION])
        with pytest.raises(SessionRevoked):
            door.verifier.verify(door.token)

    def test_a_notice_overrules_a_check_that_began_before_it(self, door: Door) -> None:
        remembered, began = RememberedSessions(), door.clock.now()
        remembered.remember(SESSION, Standing(user_id=None, expires_at=None, checked_at=began + timedelta(seconds=1)))
        slow = Standing(user_id=ADA, expires_at=began + timedelta(hours=1), checked_at=began)
        assert remembered.remember(SESSION, slow).user_id is None

    def test_sockets_ask_whatever_is_remembered(self, door: Door) -> None:
        door.verifier.verify(door.token)
        door.table.sessions.clear()
        with pytest.raises(SessionRevoked):
            door.verifier.verify_now(door.token)


def test_no_more_than_its_capacity_is_remembered() -> None:
    remembered, now = RememberedSessions(capacity=2), SettableClock().now()
    standing = Standing(user_id=ADA, expires_at=now, checked_at=now)
    ids = [SessionId(f"sess_{number}") for number in range(3)]
    for session_id in ids:
        remembered.remember(session_id, standing)
    assert [remembered.find(session_id, now) for session_id in ids] == [None, standing, standing]
