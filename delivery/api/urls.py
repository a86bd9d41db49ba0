"""The routes of `delivery`."""

from django.urls import URLPattern, path

from chats.services.creation import ChatCreation
from delivery.api.inbox import ChatsView
from delivery.api.watermarks import AckView, DeliveryView
from delivery.services.inbox import Inbox
from delivery.services.watermarks import Watermarks
from foundation.rest.authentication import Verify


def routes(*, inbox: Inbox, creation: ChatCreation, watermarks: Watermarks, verify: Verify) -> list[URLPattern]:
    return [
        path("api/chats", ChatsView.as_view(inbox=inbox, creation=creation, verify=verify)),
        path("api/chats/<str:chat_id>/ack", AckView.as_view(watermarks=watermarks, verify=verify)),
        path("api/delivery", DeliveryView.as_view(watermarks=watermarks, verify=verify)),
    ]
