"""`GET /api/presence`: who of a chat is online."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chats.errors import ChatNotFound
from delivery.services.presence import Presence
from foundation.kernel.errors import Invalid
from foundation.kernel.ids import ChatId, UserId
from foundation.rest.documentation import problems
from foundation.rest.serializers import BoundedListField, StrictSerializer, TextField
from foundation.rest.views import ParleyView, given

MAX_USERS = 100

PRESENCE = OpenApiExample(
    "One online, one not",
    {
        "items": [
            {"user_id": "user_01KG7Y4QZ8M3T5V6W7X8Y9Z0A1", "status": "online"},
            {
                "user_id": "user_01KG7Y4QZ8M3T5V6W7X8Y9Z0A2",
                "status": "offline",
                "last_seen": "2026-01-30T14:30:00.000Z",
            },
        ],
        "next_cursor": None,
    },
    response_only=True,
    status_codes=["200"],
)


class PresenceQuery(StrictSerializer):
    chat_id = TextField(help_text="A chat that you share with them.")
    user_id = BoundedListField(
        child=TextField(), min_length=1, max_length=MAX_USERS, help_text="Repeat the parameter, up to 100 times."
    )


class StatusAnswer(serializers.Serializer[Any]):
    user_id = serializers.CharField()
    status = serializers.ChoiceField(choices=["online", "offline"])
    last_seen = serializers.DateTimeField(
        required=False, help_text="When the last connection ended, where that is known and shown."
    )


class PresenceAnswer(serializers.Serializer[Any]):
    items = StatusAnswer(many=True)
    next_cursor = serializers.CharField(allow_null=True, help_text="Always null: the users asked for fit one page.")


class PresenceView(ParleyView):
    presence = given(Presence)

    @extend_schema(
        operation_id="list_presence",
        summary="See who is online",
        description=(
            "Users who are not in the chat are left out. Users who hide their presence are offline, and who hides the "
            "own sees everybody offline."
        ),
        tags=["Delivery"],
        parameters=[PresenceQuery],
        examples=[PRESENCE],
        responses={200: PresenceAnswer, **problems(ChatNotFound, Invalid)},
    )
    async def get(self, request: Request) -> Response:
        query = self.validated_query(PresenceQuery, repeated=["user_id"])
        user_ids = [UserId(user_id) for user_id in query["user_id"]]
        found = await self.presence.list_presence(ChatId(query["chat_id"]), self.caller.user_id, user_ids)
        return Response({"items": [status.to_json() for status in found], "next_cursor": None})
