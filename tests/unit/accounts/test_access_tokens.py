"""Access tokens: what is read, what is refused."""

from datetime import timedelta
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.errors import InvalidToken, TokenExpired
from accounts.services.tokens import AccessTokens
from foundation.kernel.ids import SessionId, UserId
from tests.doubles import SettableClock

USER = UserId("user_01KG7Y4QZ8M3T5V6W7X8Y9Z0A1")
SESSION = SessionId("sess_01KG7Y4QZ9B2C3D4E5F6G7H8J9")
KEYS = {"k2": "2" * 64, "k1": "1" * 64}
CLOCK = SettableClock()
TOKENS = AccessTokens(KEYS, clock=CLOCK)
GOOD = {
    "iss": "parley",
    "aud": "parley-api",
    "sub": USER,
    "sid": SESSION,
    "iat": int(CLOCK.now().timestamp()),
    "exp": int((CLOCK.now() + timedelta(minutes=15)).timestamp()),
}


def signed(claims: dict[str, Any], *, kid: Any = "k2", key: str = KEYS["k2"], algorithm: str = "HS256") -> str:
    return jwt.encode(claims, key, algorithm, headers={"kid": kid} if kid is not None else None)


class TestIssue:
    def test_a_token_names_its_key_user_and_session(self) -> None:
        token = TOKENS.issue(user_id=USER, session_id=SESSION)
        assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "JWT", "kid": "k2"}
        assert jwt.decode(token, options={"verify_signature": False}) == GOOD

    def test_it_lasts_fifteen_minutes(self) -> None:
        clock = SettableClock()
        tokens = AccessTokens(KEYS, clock=clock)
        token = tokens.issue(user_id=USER, session_id=SESSION)
        clock.advance(minutes=14, seconds=59)
        assert tokens.read(token).user_id == USER
        clock.advance(seconds=1)
        with pytest.raises(TokenExpired):
            tokens.read(token)


class TestRotation:
    def test_a_token_of_the_old_key_is_read_while_the_key_is_in_the_ring(self) -> None:
        before = AccessTokens({"k1": KEYS["k1"]}, clock=CLOCK).issue(user_id=USER, session_id=SESSION)
        assert TOKENS.read(before).session_id == SESSION

    def test_the_new_key_signs(self) -> None:
        assert jwt.get_unverified_header(TOKENS.issue(user_id=USER, session_id=SESSION))["kid"] == "k2"

    def test_a_key_that_left_the_ring_is_refused(self) -> None:
        after = AccessTokens({"k3": "3" * 64}, clock=CLOCK)
        with pytest.raises(InvalidToken):
            after.read(TOKENS.issue(user_id=USER, session_id=SESSION))


class TestRead:
    def test_a_good_one(self) -> None:
        caller = TOKENS.read(signed(GOOD))
        assert (caller.user_id, caller.session_id) == (USER, SESSION)
        assert caller.expires_at == CLOCK.now() + timedelta(minutes=15)

    @pytest.mark.parametrize("claim", sorted(GOOD))
    def test_every_claim_is_needed(self, claim: str) -> None:
        with pytest.raises(InvalidToken):
            TOKENS.read(signed({name: value for name, value in GOOD.items() if name != claim}))

    @pytest.mark.parametrize(
        "wrong",
        [
            {"iss": "someone"},
            {"aud": "elsewhere"},
            {"sub": SESSION},
            {"sub": "user_x"},
            {"sid": USER},
            {"sid": 7},
            {"sid": None},
            {"exp": "soon"},
            {"exp": 1.5},
            {"exp": 10**20},
            {"exp": -(10**20)},
            {"exp": True},
        ],
        ids=repr,
    )
    def test_a_wrong_claim_is_refused_even_when_signed(self, wrong: dict[str, Any]) -> None:
        with pytest.raises((InvalidToken, TokenExpired)):
            TOKENS.read(signed({**GOOD, **wrong}))

    @pytest.mark.parametrize("algorithm", ["none", "HS384", "HS512"])
    def test_the_algorithm_is_pinned(self, algorithm: str) -> None:
        with pytest.raises(InvalidToken):
            TOKENS.read(signed(GOOD, key="" if algorithm == "none" else KEYS["k2"], algorithm=algorithm))

    @pytest.mark.parametrize("kid", [None, "", "k1", "k9", "../k2"])
    def test_the_key_is_the_one_named(self, kid: str | None) -> None:
        with pytest.raises(InvalidToken):
            TOKENS.read(signed(GOOD, kid=kid))

    def test_a_huge_one_is_not_even_decoded(self) -> None:
        with pytest.raises(InvalidToken):
            TOKENS.read(signed({**GOOD, "more": "x" * 4000}))

    @given(st.text())
    def test_any_text_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidToken):
            TOKENS.read(text)

    @given(st.data())
    def test_any_changed_character_is_refused(self, data: st.DataObject) -> None:
        token = signed(GOOD)
        signature = token.rindex(".") + 1
        place = data.draw(st.integers(0, len(token) - 2).filter(lambda place: place != signature - 1))
        other = data.draw(st.sampled_from("ABCxyz019-_").filter(lambda character: character != token[place]))
        with pytest.raises((InvalidToken, TokenExpired)):
            TOKENS.read(token[:place] + other + token[place + 1 :])
