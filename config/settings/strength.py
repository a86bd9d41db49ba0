"""How hard a secret is to guess: an estimate that rejects placeholders and patterns, and accepts what `secrets` makes.

It cannot tell that a long sentence is one.
"""

import math
import re
import string

MIN_BITS = 64.0
"""`secrets.token_hex(16)` is estimated at 73 or more."""
PLACEHOLDERS = (
    "changeme", "secret", "password", "passw0rd", "example", "placeholder", "insecure", "testonly", "replace",
    "default", "dummy", "letmein", "qwerty", "asdfgh", "abcdef", "123456",
)  # fmt: skip
"""In a random secret of 64 characters, one of these occurs once in 50,000 times."""

_CLASSES = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
_OTHERS = 32


def find_weakness(secret: str, *, least: int) -> str | None:
    """Return what is wrong with a secret of less than `least` characters or that could be guessed, or None.

    The text does not contain the secret.
    """
    if len(secret) < least:
        return f"has {len(secret)} characters and needs {least}"
    plain = re.sub(r"[^a-z0-9]", "", secret.lower())
    if word := next((word for word in PLACEHOLDERS if word in plain), None):
        return f"contains {word!r}, as placeholders do"
    if estimate_bits(secret) < MIN_BITS:
        return "repeats itself or uses too few different characters"
    return None


def estimate_bits(secret: str) -> float:
    """Bits of entropy: what each character adds, by the alphabet it seems to be of, without repeated patterns.

    A pair of neighbours that occurred before adds nothing, so "abc" repeated is worth little more than "abc".
    """
    used = set(secret)
    alphabet = sum(len(each) for each in _CLASSES if used & set(each))
    alphabet += _OTHERS if used - set("".join(_CLASSES)) else 0
    pairs = {secret[place : place + 2] for place in range(len(secret) - 1)}
    return len(pairs) * math.log2(min(alphabet, len(used))) if len(used) > 1 else 0.0
