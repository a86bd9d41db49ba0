"""Validation of display names."""

import unicodedata

from foundation.kernel.errors import Invalid
from foundation.kernel.ids import UserId

MAX_LENGTH = 100
_CONTROLS = {"Cc", "Cs", "Zl", "Zp"}
_BIDI_OVERRIDES = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def normalize(text: str) -> str:
    """Return the name in NFC, without surrounding spaces. Raises `Invalid`.

    Rejects control characters, and bidirectional overrides, which let one name be displayed as another.
    """
    name = unicodedata.normalize("NFC", text).strip()
    if not 1 <= len(name) <= MAX_LENGTH:
        raise _invalid(f"Must have 1 to {MAX_LENGTH} characters.")
    if any(unicodedata.category(character) in _CONTROLS or character in _BIDI_OVERRIDES for character in name):
        raise _invalid("Must not contain control characters.")
    if not any(character.isprintable() and not character.isspace() for character in name):
        raise _invalid("Must contain something to see.")
    return name


def default_for(user_id: UserId) -> str:
    """The name of a user who gave none. Does not reveal the phone number."""
    return f"User {user_id[-4:]}"


def _invalid(message: str) -> Invalid:
    return Invalid("The display name is not acceptable", fields={"display_name": [message]})
