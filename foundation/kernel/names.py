"""Validation of the names that users give: display names and names of groups."""

import unicodedata

BIDI_OVERRIDES = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Embeddings, overrides and isolates, which let one name be displayed as another."""
_CONTROLS = {"Cc", "Cs", "Zl", "Zp"}


def normalize(text: str, *, max_length: int) -> str:
    """Return the name in NFC, without surrounding spaces. Raises `ValueError` with the reason for the user."""
    composed = unicodedata.normalize("NFC", text)
    name = composed.strip()
    if not 1 <= len(name) <= max_length:
        raise ValueError(f"Must have 1 to {max_length} characters.")
    if any(unicodedata.category(character) in _CONTROLS or character in BIDI_OVERRIDES for character in composed):
        raise ValueError("Must not contain line breaks, control characters or bidirectional overrides.")
    if not any(character.isprintable() and not character.isspace() for character in name):
        raise ValueError("Must contain something to see.")
    return name
