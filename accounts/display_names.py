"""Display names: what people may call themselves."""

import unicodedata

from foundation.kernel.errors import Invalid
from foundation.kernel.ids import UserId

LONGEST = 100
_CONTROLS = {"Cc", "Cs", "Zl", "Zp"}
_OVERRIDES = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def checked(text: str) -> str:
    """The name, composed and without spaces around it. Raises `Invalid`.

    Control characters are refused, and those that turn the direction of the text around a name, because they let one
    name pass for another on other people's screens.
    """
    name = unicodedata.normalize("NFC", text).strip()
    if not 1 <= len(name) <= LONGEST:
        raise _refusal(f"Must have 1 to {LONGEST} characters.")
    if any(unicodedata.category(character) in _CONTROLS or character in _OVERRIDES for character in name):
        raise _refusal("Must not contain control characters.")
    if not any(character.isprintable() and not character.isspace() for character in name):
        raise _refusal("Must contain something to see.")
    return name


def default_for(user_id: UserId) -> str:
    """A name for someone who gave none: tells apart, and tells nothing of the phone number."""
    return f"User {user_id[-4:]}"


def _refusal(message: str) -> Invalid:
    return Invalid("The display name is not acceptable", fields={"display_name": [message]})
