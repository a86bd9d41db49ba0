"""Messages over REST."""

import orjson
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from chats.errors import ChatNotFound
from foundation.kernel.errors import Invalid, Overloaded, RateLimited
from foundation.kernel.ids import ChatId
from foundation.kernel.tracing import TRACEPARENT
from foundation.rest.documentation import BODY_FAILURES, problems
from foundation.rest.views import ParleyView, given
from foundation.stores.errors import EventLogUnavailable
from messaging.api.examples import MESSAGE
from messaging.api.serializers import DraftBody, PageAnswer, SentAnswer, WindowQuery
from messaging.domain import Draft
from messaging.errors import ClientMessageIdConflict, ContentTooLarge, MessageNotFound
from messaging.services.committer import Committer
from messaging.services.history import History, Window


class MessagesView(ParleyView):
    """POST and GET `/api/chats/{chat_id}/messages`."""

    committer = given(Committer)
    history = given(History)

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
                examples=[OpenApiExample("A new message", value={**MESSAGE, "duplicate": False})],
            ),
            200: OpenApiResponse(
                SentAnswer,
                description="The message was stored by an earlier send of the same id.",
                examples=[OpenApiExample("A retry", value={**MESSAGE, "duplicate": True})],
            ),
            **problems(
                *BODY_FAILURES,
                ChatNotFound,
                ClientMessageIdConflict,
                ContentTooLarge,
                MessageNotFound,
                EventLogUnavailable,
                Overloaded,
                RateLimited,
            ),
        },
    )
    async def post(self, request: Request, chat_id: str) -> Response:
        body = self.validated(DraftBody)
        sender_id = self.caller.user_id
        draft = Draft(chat_id=ChatId(chat_id), sender_id=sender_id, traceparent=TRACEPARENT.get(), **body)
        sent = await self.committer.send(draft)
        return Response(sent.to_json(), status=200 if sent.duplicate else 201)

    @extend_schema(
        operation_id="list_messages",
        summary="Read messages",
        description=(
            "With `after_sequence` what follows it, oldest first; with `before_sequence` what precedes it, newest "
            "first; with neither the newest, newest first. Messages are shown as they stand; other kinds of entries "
            "are at their places. `latest_sequence` is where the chat ends."
        ),
        parameters=[WindowQuery],
        responses={
            200: OpenApiResponse(
                PageAnswer,
                examples=[
                    OpenApiExample("A page", value={"messages": [MESSAGE], "has_more": False, "latest_sequence": 47})
                ],
            ),
            **problems(Invalid, ChatNotFound),
        },
    )
    async def get(self, request: Request, chat_id: str) -> Response:
        query = self.validated_query(WindowQuery)
        window = Window(query.get("after_sequence"), query.get("before_sequence"), query["limit"])
        page = await self.history.page(ChatId(chat_id), self.caller.user_id, window)
        return Response(
            {
                "messages": orjson.Fragment(page.encoded_messages),
                "has_more": page.has_more,
                "latest_sequence": page.latest_sequence,
            }
        )
