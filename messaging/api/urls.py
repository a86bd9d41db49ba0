"""The routes of `messaging`."""

from django.urls import URLPattern, path

from foundation.kernel.loops import ServiceLoop
from foundation.rest.authentication import Verify
from foundation.rest.throttling import UserLimits
from messaging.api.views import MessagesView, MessageView
from messaging.services.committer import Committer
from messaging.services.history import History


def routes(
    *,
    committer: Committer,
    history: History,
    loop: ServiceLoop,
    verify: Verify,
    limits: UserLimits | None = None,
) -> list[URLPattern]:
    callers = {"verify": verify, "limits": limits}
    return [
        path(
            "api/chats/<str:chat_id>/messages",
            MessagesView.as_view(committer=committer, history=history, loop=loop, **callers),
        ),
        path(
            "api/chats/<str:chat_id>/messages/<str:sequence>",
            MessageView.as_view(history=history, loop=loop, **callers),
        ),
    ]
