"""Validation of display names."""

from foundation.kernel import names
from foundation.kernel.errors import Invalid
from foundation.kernel.ids import UserId

MAX_LENGTH = 100


def normalize(text: str) -> str:
    """Return the name in NFC, without surrounding spaces. Raises `Invalid`."""
    try:
        return names.normalize(text, max_length=MAX_LENGTH)
    except ValueError as error:
        raise Invalid("The display name is not acceptable", fields={"display_name": [str(error)]}) from error


def default_for(user_id: UserId) -> str:
    """The name of a user who gave none. Does not reveal the phone number."""
    return f"User {user_id[-4:]}"
