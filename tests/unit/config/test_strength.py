"""The estimate accepts what `secrets` makes and rejects placeholders and patterns."""

import secrets

import pytest

from config.settings.strength import find_weakness


class TestFindWeakness:
    @pytest.mark.parametrize(
        "secret",
        [
            "s3cr3t-" * 8,
            "0" * 64,
            "ab" * 32,
            "abcABC123" * 6,
            "Change-Me" + "x9Kq2Lw8" * 6,
            "this-is-my-SECRET-key-1-please-do-not-tell-anyone",
            "PASSWORD_u7Rz2mQx9Lb4Tc8Wn1Vk6Jp3Hd5Gs0Fa",
        ],
    )
    def test_what_can_be_guessed_is_rejected(self, secret: str) -> None:
        assert find_weakness(secret, least=32) is not None

    def test_a_short_one_is_rejected(self) -> None:
        assert find_weakness("u7Rz2mQx9Lb4Tc8Wn1Vk6Jp3", least=32) == "has 24 characters and needs 32"

    @pytest.mark.parametrize(
        "secret",
        [
            "f1e0c9a4b7d2853690be41fa7c8d25e3",
            "Zk3vTq8wXy1bLr6mHc9pNd4sGf7jKa2uEo5iVt0xWzQ",
            "correct-HORSE-battery-staple-42-Ünïcödé-marmalade",
        ],
    )
    def test_a_long_and_varied_one_is_accepted(self, secret: str) -> None:
        assert find_weakness(secret, least=32) is None

    def test_random_ones_are_accepted(self) -> None:
        made = [make(32) for make in (secrets.token_hex, secrets.token_urlsafe) for _ in range(20)]
        assert [find_weakness(secret, least=32) for secret in made] == [None] * len(made)
