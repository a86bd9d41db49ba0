"""The routes of `delivery`."""

from django.urls import URLPattern, path

from chats.services.creation import ChatCreation
from config.http.authentication import Verify
from delivery.api.inbox import ChatsView
from delivery.services.inbox import Inbox


def routes(*, inbox: Inbox, creation: ChatCreation, verify: Verify) -> list[URLPattern]:
    return [path("api/chats", ChatsView.as_view(inbox=inbox, creation=creation, verify=verify))]
