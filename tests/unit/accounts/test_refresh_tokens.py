"""Refresh tokens: derived, protected by a MAC, stored as hashes."""

import pytest

from accounts.errors import InvalidRefreshToken
from accounts.services.refresh_tokens import RefreshTokens
from foundation.kernel.ids import SessionId

SESSION = SessionId("sess_01KG7Y4QZ9B2C3D4E5F6G7H8J9")
OTHER = SessionId("sess_01KG7Y4QZ9B2C3D4E5F6G7H8K0")
TOKENS = RefreshTokens("a secret")


class TestTokens:
    def test_one_is_read_as_it_was_written(self) -> None:
        token = TOKENS.first(SESSION)
        assert TOKENS.read(token.text) == token

    def test_each_first_one_is_random(self) -> None:
        assert len({TOKENS.first(SESSION).secret for _ in range(100)}) == 100

    def test_it_carries_256_bits(self) -> None:
        token = TOKENS.first(SESSION)
        assert len(token.secret) == len(TOKENS.successor(token, salt="s").secret) == 43

    def test_what_is_stored_does_not_contain_it(self) -> None:
        token = TOKENS.first(SESSION)
        assert len(token.digest) == 64
        assert token.secret not in token.digest

    @pytest.mark.parametrize("text", ["", "x", f"{SESSION}", f"{SESSION}.{'A' * 43}", f"sess_X.{'A' * 43}.{'A' * 22}"])
    def test_another_form_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidRefreshToken):
            TOKENS.read(text)

    def test_a_newline_behind_it_is_another_form(self) -> None:
        with pytest.raises(InvalidRefreshToken):
            TOKENS.read(TOKENS.first(SESSION).text + "\n")


class TestSuccessor:
    def test_it_is_the_same_for_everyone_with_the_same_salt(self) -> None:
        token = TOKENS.first(SESSION)
        assert TOKENS.successor(token, salt="s") == RefreshTokens("a secret").successor(token, salt="s")

    def test_it_needs_the_token_the_salt_and_the_secret(self) -> None:
        token = TOKENS.first(SESSION)
        successor = TOKENS.successor(token, salt="s")
        others = [
            TOKENS.successor(TOKENS.first(SESSION), salt="s"),
            TOKENS.successor(token, salt="t"),
            RefreshTokens("another secret").successor(token, salt="s"),
        ]
        assert successor.secret not in {other.secret for other in others}

    def test_it_was_issued_here_too(self) -> None:
        successor = TOKENS.successor(TOKENS.first(SESSION), salt="s")
        assert TOKENS.read(successor.text) == successor


class TestMac:
    def test_a_made_up_token_was_not_issued_here(self) -> None:
        with pytest.raises(InvalidRefreshToken):
            TOKENS.read(f"{SESSION}.{'A' * 43}.{'A' * 22}")

    def test_a_token_moved_to_another_session_was_not_issued_here(self) -> None:
        with pytest.raises(InvalidRefreshToken):
            TOKENS.read(TOKENS.first(SESSION).text.replace(SESSION, OTHER))


class TestNewSecret:
    def test_tokens_of_the_former_secret_are_read(self) -> None:
        token = TOKENS.first(SESSION)
        assert RefreshTokens("new", fallbacks=["a secret"]).read(token.text) == token

    def test_a_successor_derived_with_the_former_secret_is_found(self) -> None:
        token = TOKENS.first(SESSION)
        successor = TOKENS.successor(token, salt="s")
        after = RefreshTokens("new", fallbacks=["a secret"])
        found = after.find_successor(token, salt="s", digest=successor.digest)
        assert found is not None
        assert found.secret == successor.secret

    def test_without_the_former_secret_they_are_refused(self) -> None:
        with pytest.raises(InvalidRefreshToken):
            RefreshTokens("new").read(TOKENS.first(SESSION).text)
