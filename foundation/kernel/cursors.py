"""Cursors: positions in lists, opaque to clients.

A cursor is signed and bound to one caller and one list, so it cannot be forged or used by another caller or for
another list. It holds a position only, nothing secret.
"""

from collections.abc import Mapping

from django.core import signing

from foundation.kernel.errors import Malformed

Position = Mapping[str, str | int]


class InvalidCursor(Malformed):
    """The cursor was not issued by this server for this caller and this list."""

    title = "The cursor is not valid"

    def __init__(self) -> None:
        super().__init__(
            "The cursor is not valid for this list. Start again without a cursor.",
            fields={"cursor": ["Not a cursor of this list."]},
        )


class CursorCodec:
    """Signs and reads cursors with the project's secret."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def encode(self, position: Position, *, scope: str, owner: str) -> str:
        return signing.dumps(dict(position), key=self._secret, salt=_salt(scope, owner))

    def decode(self, cursor: str, *, scope: str, owner: str) -> Position:
        """Return the position. Raises `InvalidCursor` for anything `encode` did not make for this scope and owner."""
        try:
            position = signing.loads(cursor, key=self._secret, salt=_salt(scope, owner))
        except (signing.BadSignature, ValueError) as error:
            raise InvalidCursor from error
        if not isinstance(position, dict):
            raise InvalidCursor
        return position


def _salt(scope: str, owner: str) -> str:
    return f"cursor:{scope}:{owner}"
