"""The routes of `messaging`."""

from django.urls import URLPattern, path

from foundation.rest.authentication import Verify
from foundation.rest.throttling import UserLimits
from messaging.api.changes import MessageView, PinsView, PinView, ReactionsView, ReactionView
from messaging.api.views import MessagesView
from messaging.services.annotations import Annotations
from messaging.services.committer import Committer
from messaging.services.history import History


def routes(
    *,
    committer: Committer,
    history: History,
    annotations: Annotations,
    verify: Verify,
    limits: UserLimits | None = None,
) -> list[URLPattern]:
    callers = {"verify": verify, "limits": limits}
    message = "api/chats/<str:chat_id>/messages/<str:sequence>"
    return [
        path(
            "api/chats/<str:chat_id>/messages",
            MessagesView.as_view(committer=committer, history=history, **callers),
        ),
        path(message, MessageView.as_view(committer=committer, history=history, **callers)),
        path(f"{message}/reactions", ReactionsView.as_view(annotations=annotations, **callers)),
        path(f"{message}/reactions/<str:emoji>", ReactionView.as_view(committer=committer, **callers)),
        path("api/chats/<str:chat_id>/pins", PinsView.as_view(annotations=annotations, **callers)),
        path("api/chats/<str:chat_id>/pins/<str:sequence>", PinView.as_view(committer=committer, **callers)),
    ]
