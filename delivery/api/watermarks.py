"""Watermarks over REST: acknowledge a chat, list one's own."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chats.errors import ChatNotFound
from delivery.errors import SequenceOutOfRange
from delivery.services.watermarks import Watermarks
from foundation.kernel.errors import Invalid, Malformed
from foundation.kernel.ids import ChatId
from foundation.rest.documentation import BODY_FAILURES, problems
from foundation.rest.serializers import PageQuery, StrictSerializer, WholeNumberField
from foundation.rest.views import ParleyView, given
from messaging.domain import MAX_SEQUENCE


class AckBody(StrictSerializer):
    """How far the chat has arrived."""

    sequence = WholeNumberField(
        min_value=1, max_value=MAX_SEQUENCE, help_text="Everything up to and including it has arrived."
    )


class AckAnswer(serializers.Serializer[Any]):
    last_acked_sequence = serializers.IntegerField(help_text="Never moves back, so it may be further than asked.")


class WatermarkAnswer(AckAnswer):
    chat_id = serializers.CharField()
    updated_at = serializers.DateTimeField()


class WatermarkPageAnswer(serializers.Serializer[Any]):
    items = WatermarkAnswer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class AckView(ParleyView):
    """POST `/api/chats/{chat_id}/ack`."""

    watermarks = given(Watermarks)

    @extend_schema(
        operation_id="acknowledge_chat",
        summary="Acknowledge what has arrived",
        description="Moves your watermark, which decides what is unread. Acknowledging less than before is no change.",
        tags=["Delivery"],
        request=AckBody,
        responses={
            200: OpenApiResponse(
                AckAnswer,
                description="Where the watermark stands.",
                examples=[OpenApiExample("Acknowledged", value={"last_acked_sequence": 47})],
            ),
            **problems(ChatNotFound, SequenceOutOfRange, *BODY_FAILURES),
        },
    )
    def post(self, request: Request, chat_id: str) -> Response:
        sequence = self.validated(AckBody)["sequence"]
        return Response(
            {"last_acked_sequence": self.watermarks.acknowledge(self.caller.user_id, ChatId(chat_id), sequence)}
        )


class DeliveryView(ParleyView):
    """GET `/api/delivery`."""

    watermarks = given(Watermarks)

    @extend_schema(
        operation_id="list_watermarks",
        summary="List how far your chats have arrived",
        tags=["Delivery"],
        parameters=[PageQuery],
        responses={200: WatermarkPageAnswer, **problems(Malformed, Invalid)},
    )
    def get(self, request: Request) -> Response:
        query = self.validated_query(PageQuery)
        page = self.watermarks.list_watermarks(self.caller.user_id, limit=query["limit"], cursor=query.get("cursor"))
        return Response({"items": [mark.to_json() for mark in page.watermarks], "next_cursor": page.next_cursor})
