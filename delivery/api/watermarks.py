"""`POST /api/chats/{chat_id}/ack` and `/read`, `GET /api/chats/{chat_id}/receipts`, `GET /api/delivery`."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from chats.errors import ChatNotFound
from delivery.domain import Mark, Marks
from delivery.errors import SequenceOutOfRange
from delivery.services.receipts import ChatReceipts
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


class ReadBody(StrictSerializer):
    """How far you have read the chat."""

    sequence = WholeNumberField(
        min_value=1, max_value=MAX_SEQUENCE, help_text="You have seen everything up to and including it."
    )


class AckAnswer(serializers.Serializer[Any]):
    last_acked_sequence = serializers.IntegerField(help_text="Never moves back, so it may be further than asked.")


class ReadAnswer(AckAnswer):
    last_read_sequence = serializers.IntegerField(help_text="Never moves back either.")


class WatermarkAnswer(ReadAnswer):
    chat_id = serializers.CharField()
    updated_at = serializers.DateTimeField()


class WatermarkPageAnswer(serializers.Serializer[Any]):
    items = WatermarkAnswer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class ReceiptAnswer(serializers.Serializer[Any]):
    user_id = serializers.CharField()
    last_acked_sequence = serializers.IntegerField(help_text="Has arrived on one of the member's devices; 0: nothing.")
    last_read_sequence = serializers.IntegerField(
        required=False, help_text="Absent where nothing was read, or where one of you hides read marks."
    )


class ReceiptPageAnswer(serializers.Serializer[Any]):
    items = ReceiptAnswer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


_RECEIPT = {"user_id": "user_01KG7Y4QZ8M3T5V6W7X8Y9Z0A1", "last_acked_sequence": 47, "last_read_sequence": 45}
RECEIPTS = OpenApiExample(
    "One member", {"items": [_RECEIPT], "next_cursor": None}, response_only=True, status_codes=["200"]
)


class _MarkView(ParleyView):
    watermarks = given(Watermarks)

    async def move(self, chat_id: str, mark: Mark, sequence: int) -> Marks:
        return await self.watermarks.move(self.caller.user_id, ChatId(chat_id), mark, sequence)


class AckView(_MarkView):
    """POST `/api/chats/{chat_id}/ack`."""

    @extend_schema(
        operation_id="acknowledge_chat",
        summary="Acknowledge what has arrived",
        description="Moves your watermark. Acknowledging less than before is no change.",
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
    async def post(self, request: Request, chat_id: str) -> Response:
        marks = await self.move(chat_id, Mark.ACKED, self.validated(AckBody)["sequence"])
        return Response({Mark.ACKED.value: marks.delivered})


class ReadView(_MarkView):
    """POST `/api/chats/{chat_id}/read`."""

    @extend_schema(
        operation_id="read_chat",
        summary="Say how far you have read",
        description=(
            "Moves your read mark, from which unread messages are counted. Reading less than before is no change. "
            "What was read has arrived. Your own messages do not move it."
        ),
        tags=["Delivery"],
        request=ReadBody,
        responses={
            200: OpenApiResponse(
                ReadAnswer,
                description="Where both marks stand.",
                examples=[OpenApiExample("Read", value={"last_acked_sequence": 47, "last_read_sequence": 47})],
            ),
            **problems(ChatNotFound, SequenceOutOfRange, *BODY_FAILURES),
        },
    )
    async def post(self, request: Request, chat_id: str) -> Response:
        marks = await self.move(chat_id, Mark.READ, self.validated(ReadBody)["sequence"])
        return Response(marks.to_json())


class ReceiptsView(ParleyView):
    """GET `/api/chats/{chat_id}/receipts`."""

    receipts = given(ChatReceipts)

    @extend_schema(
        operation_id="list_receipts",
        summary="List how far the members have received and read",
        description=(
            "By user id. In chats of at most 100 members, changes also arrive as `receipts` frames, at most once a "
            "second and chat."
        ),
        tags=["Delivery"],
        parameters=[PageQuery],
        examples=[RECEIPTS],
        responses={200: ReceiptPageAnswer, **problems(ChatNotFound, Malformed, Invalid)},
    )
    def get(self, request: Request, chat_id: str) -> Response:
        query = self.validated_query(PageQuery)
        page = self.receipts.list_receipts(
            ChatId(chat_id), self.caller.user_id, limit=query["limit"], cursor=query.get("cursor")
        )
        return Response({"items": page.items, "next_cursor": page.next_cursor})


class DeliveryView(ParleyView):
    """GET `/api/delivery`."""

    watermarks = given(Watermarks)

    @extend_schema(
        operation_id="list_watermarks",
        summary="List how far your chats have arrived and been read",
        tags=["Delivery"],
        parameters=[PageQuery],
        responses={200: WatermarkPageAnswer, **problems(Malformed, Invalid)},
    )
    async def get(self, request: Request) -> Response:
        query = self.validated_query(PageQuery)
        page = await self.watermarks.list_watermarks(
            self.caller.user_id, limit=query["limit"], cursor=query.get("cursor")
        )
        return Response({"items": [mark.to_json() for mark in page.watermarks], "next_cursor": page.next_cursor})
