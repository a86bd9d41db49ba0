"""The errors of messaging."""

from foundation.kernel.errors import Conflict, Forbidden, Invalid, NotFound


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
    """The chat has no message with this sequence. Entries of other kinds are no messages."""

    code = "message_not_found"
    title = "There is no such message"


class MessageDeleted(Conflict):
    """The message has been deleted: it cannot be edited, pinned or reacted to."""

    code = "message_deleted"
    title = "The message has been deleted"


class TooManyReactions(Conflict):
    """The message has 20 different emoji or 1,000 reactions."""

    code = "too_many_reactions"
    title = "The message has as many reactions as it can have"


class NotYourMessage(Forbidden):
    """Only its author edits a message; its author, the owner and admins delete it; the owner and admins pin it."""

    title = "You may not change this message"
