"""`GET /api/chats`: the inbox."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chats.api.examples import CHAT
from chats.api.serializers import ChatAnswer
from chats.domain import Role
from delivery.services.inbox import Inbox
from foundation.kernel.errors import Invalid, Malformed
from foundation.rest.documentation import problems
from foundation.rest.serializers import PageQuery
from foundation.rest.views import ParleyView, given
from messaging.api.serializers import MessageAnswer

_ENTRY = {
    **CHAT,
    "role": "owner",
    "muted_until": None,
    "last_acked_sequence": 42,
    "last_read_sequence": 40,
    "unread_after": 40,
    "unread_count": 2,
    "last_message": None,
}
INBOX = OpenApiExample("One chat", {"items": [_ENTRY], "next_cursor": None}, response_only=True, status_codes=["200"])


class InboxEntryAnswer(ChatAnswer):
    role = serializers.ChoiceField(choices=[str(role) for role in Role])
    muted_until = serializers.DateTimeField(allow_null=True)
    last_acked_sequence = serializers.IntegerField(help_text="Everything up to it has arrived; 0: nothing.")
    last_read_sequence = serializers.IntegerField(help_text="You have read everything up to it; 0: nothing.")
    unread_after = serializers.IntegerField(help_text="Messages after this sequence are unread.")
    unread_count = serializers.IntegerField(
        help_text="Counts from the read mark, or from the arrived where nothing was read yet."
    )
    last_message = MessageAnswer(allow_null=True)


class InboxPageAnswer(serializers.Serializer[Any]):
    items = InboxEntryAnswer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class InboxView(ParleyView):
    inbox = given(Inbox)

    @extend_schema(
        operation_id="list_chats",
        tags=["Chats"],
        examples=[INBOX],
        summary="List your chats",
        description=(
            "The youngest chat first, with its last message and how much of it is unread. A page may hold fewer items "
            "than `limit`; the list ends where `next_cursor` is null."
        ),
        parameters=[PageQuery],
        responses={200: InboxPageAnswer, **problems(Malformed, Invalid)},
    )
    async def get(self, request: Request) -> Response:
        query = self.validated_query(PageQuery)
        page = await self.inbox.list_chats(self.caller.user_id, limit=query["limit"], cursor=query.get("cursor"))
        return Response({"items": [entry.to_json() for entry in page.entries], "next_cursor": page.next_cursor})
