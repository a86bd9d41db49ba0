"""The errors of messaging."""

from foundation.kernel.errors import Conflict, Invalid, NotFound, Unavailable


class InvalidDraft(Invalid):
    """A field of the draft is not acceptable; `fields` says which and why."""


class ContentTooLarge(Invalid):
    """The content is longer than 4,096 bytes of UTF-8."""

    code = "content_too_large"
    title = "The content is too large"


class ClientMessageIdConflict(Conflict):
    """The client message id already belongs to another message of this chat."""

    code = "client_message_id_conflict"
    title = "This client_message_id is taken in this chat: use a new one"


class MessageNotFound(NotFound):
    """The chat has no message with this sequence."""

    code = "message_not_found"
    title = "There is no such message"


class Overloaded(Unavailable):
    """More drafts are waiting than the process will hold, or it is shutting down. Nothing was stored."""

    code = "overloaded"
    title = "The server is overloaded, try again shortly"
