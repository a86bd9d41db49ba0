"""The routes of chats, except `/api/chats`: `delivery` routes it, because its GET is the inbox."""

from django.urls import URLPattern, path

from chats.api.views import ChatView, MembersView, MemberView, MuteView
from chats.services.details import ChatDetails
from chats.services.members import Members
from foundation.rest.authentication import Verify
from foundation.rest.throttling import UserLimits


def routes(
    *, details: ChatDetails, members: Members, verify: Verify, limits: UserLimits | None = None
) -> list[URLPattern]:
    callers = {"verify": verify, "limits": limits}
    return [
        path("api/chats/<str:chat_id>", ChatView.as_view(details=details, **callers)),
        path("api/chats/<str:chat_id>/mute", MuteView.as_view(details=details, **callers)),
        path("api/chats/<str:chat_id>/members", MembersView.as_view(members=members, **callers)),
        path("api/chats/<str:chat_id>/members/<str:user_id>", MemberView.as_view(members=members, **callers)),
    ]
