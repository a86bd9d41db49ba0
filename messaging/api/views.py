"""Messages over REST."""

import re

import orjson
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from chats.errors import ChatNotFound
from foundation.kernel.errors import Invalid, RateLimited
from foundation.kernel.ids import ChatId
from foundation.kernel.loops import ServiceLoop
from foundation.rest.documentation import BODY_FAILURES, problems
from foundation.rest.views import ParleyView, given
from foundation.stores.errors import EventLogUnavailable
from messaging.api.serializers import DraftBody, MessageAnswer, PageAnswer, SentAnswer, WindowQuery
from messaging.domain import MAX_SEQUENCE, Draft
from messaging.errors import ClientMessageIdConflict, ContentTooLarge, MessageNotFound, Overloaded
from messaging.services.committer import Committer
from messaging.services.history import History, Window

_SEQUENCE = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)

_MESSAGE = {
    "message_id": "msg_01JJW3T9T0G5ZB1M2N3P4Q5R6S",
    "chat_id": "chat_01JJW3S0A0G5ZB1M2N3P4Q5R6S",
    "sequence": 47,
    "sender_id": "user_01JJW3R1B0G5ZB1M2N3P4Q5R6S",
    "client_message_id": "5f0c1f6e-6f0f-4a53-9d0c-6f2f0d5a3b1e",
    "content": "Hello, world!",
    "content_type": "text/plain",
    "created_at": "2026-01-30T14:30:00.000Z",
}


class MessagesView(ParleyView):
    """POST and GET `/api/chats/{chat_id}/messages`."""

    committer = given(Committer)
    history = given(History)
    loop = given(ServiceLoop)

    @extend_schema(
        operation_id="send_message",
        summary="Send a message",
        description=(
            "Answers when the message is durable and announced. Safe to send again with the same `client_message_id` "
            "for seven days: the answer is then the first message, with 200 and `duplicate: true`. After a 503, send "
            "it again with the same id; with `fanout_unavailable` the message is already stored."
        ),
        request=DraftBody,
        responses={
            201: OpenApiResponse(
                SentAnswer,
                description="The message is stored.",
                examples=[OpenApiExample("A new message", value={**_MESSAGE, "duplicate": False})],
            ),
            200: OpenApiResponse(
                SentAnswer,
                description="The message was stored by an earlier send of the same id.",
                examples=[OpenApiExample("A retry", value={**_MESSAGE, "duplicate": True})],
            ),
            **problems(
                *BODY_FAILURES,
                ChatNotFound,
                ClientMessageIdConflict,
                ContentTooLarge,
                EventLogUnavailable,
                Overloaded,
                RateLimited,
            ),
        },
    )
    def post(self, request: Request, chat_id: str) -> Response:
        body = self.validated(DraftBody)
        draft = Draft(chat_id=ChatId(chat_id), sender_id=self.caller.user_id, **body)
        sent = self.loop.run(self.committer.send(draft))
        return Response(sent.to_json(), status=200 if sent.duplicate else 201)

    @extend_schema(
        operation_id="list_messages",
        summary="Read messages",
        description=(
            "With `after_sequence` what follows it, oldest first; with `before_sequence` what precedes it, newest "
            "first; with neither the newest, newest first. `latest_sequence` is where the chat ends."
        ),
        parameters=[WindowQuery],
        responses={
            200: OpenApiResponse(
                PageAnswer,
                examples=[
                    OpenApiExample("A page", value={"messages": [_MESSAGE], "has_more": False, "latest_sequence": 47})
                ],
            ),
            **problems(Invalid, ChatNotFound),
        },
    )
    def get(self, request: Request, chat_id: str) -> Response:
        query = self.validated_query(WindowQuery)
        window = Window(query.get("after_sequence"), query.get("before_sequence"), query["limit"])
        page = self.loop.run(self.history.page(ChatId(chat_id), self.caller.user_id, window))
        return Response(
            {
                "messages": orjson.Fragment(page.encoded_messages),
                "has_more": page.has_more,
                "latest_sequence": page.latest_sequence,
            }
        )


class MessageView(ParleyView):
    """GET `/api/chats/{chat_id}/messages/{sequence}`."""

    history = given(History)
    loop = given(ServiceLoop)

    @extend_schema(
        operation_id="get_message",
        summary="Read one message",
        parameters=[
            OpenApiParameter(
                "sequence",
                {"type": "integer", "minimum": 1, "maximum": MAX_SEQUENCE},
                OpenApiParameter.PATH,
                description="The message's place in its chat.",
            )
        ],
        responses={
            200: OpenApiResponse(MessageAnswer, examples=[OpenApiExample("A message", value=_MESSAGE)]),
            **problems(Invalid, ChatNotFound, MessageNotFound),
        },
    )
    def get(self, request: Request, chat_id: str, sequence: str) -> Response:
        reading = self.history.get_message(ChatId(chat_id), self.caller.user_id, _sequence(sequence))
        message = self.loop.run(reading)
        return Response(message.to_json())


def _sequence(text: str) -> int:
    if not _SEQUENCE.fullmatch(text) or int(text) > MAX_SEQUENCE:
        reason = f"Must be a whole number from 1 to {MAX_SEQUENCE}."
        raise Invalid(f"sequence: {reason}", fields={"sequence": [reason]})
    return int(text)
