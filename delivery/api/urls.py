"""The routes of `delivery`."""

from django.urls import URLPattern, path

from chats.api.views import CreateChatView
from chats.services.creation import ChatCreation
from delivery.api.inbox import InboxView
from delivery.api.presence import PresenceView
from delivery.api.watermarks import AckView, DeliveryView, ReadView, ReceiptsView
from delivery.services.inbox import Inbox
from delivery.services.presence import Presence
from delivery.services.receipts import ChatReceipts
from delivery.services.watermarks import Watermarks
from foundation.rest.authentication import Verify
from foundation.rest.routing import ByMethod
from foundation.rest.throttling import UserLimits


def routes(
    *,
    inbox: Inbox,
    creation: ChatCreation,
    watermarks: Watermarks,
    receipts: ChatReceipts,
    presence: Presence,
    verify: Verify,
    limits: UserLimits | None = None,
) -> list[URLPattern]:
    callers = {"verify": verify, "limits": limits}
    list_chats = InboxView.as_view(inbox=inbox, **callers)
    create_chat = CreateChatView.as_view(creation=creation, **callers)
    return [
        path("api/chats", ByMethod(get=list_chats, post=create_chat)),
        path("api/chats/<str:chat_id>/ack", AckView.as_view(watermarks=watermarks, **callers)),
        path("api/chats/<str:chat_id>/read", ReadView.as_view(watermarks=watermarks, **callers)),
        path("api/chats/<str:chat_id>/receipts", ReceiptsView.as_view(receipts=receipts, **callers)),
        path("api/presence", PresenceView.as_view(presence=presence, **callers)),
        path("api/delivery", DeliveryView.as_view(watermarks=watermarks, **callers)),
    ]
