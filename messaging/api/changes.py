"""Changes of messages over REST: edits, deletions, reactions, pins."""

import re
from typing import Any

from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    PolymorphicProxySerializer,
    extend_schema,
)
from rest_framework.request import Request
from rest_framework.response import Response

from chats.errors import ChatNotFound
from foundation.kernel.errors import Invalid, Malformed, Overloaded, RateLimited
from foundation.kernel.ids import ChatId
from foundation.kernel.tracing import TRACEPARENT
from foundation.rest.documentation import BODY_FAILURES, problems
from foundation.rest.serializers import PageQuery
from foundation.rest.views import ParleyView, given
from foundation.stores.errors import EventLogUnavailable
from messaging.api import examples
from messaging.api.serializers import (
    EditBody,
    MessageAnswer,
    PinsAnswer,
    ReactionPageAnswer,
    SentAnswer,
    UnchangedAnswer,
)
from messaging.domain import MAX_SEQUENCE, Action, Draft, Kind
from messaging.errors import (
    ClientMessageIdConflict,
    ContentTooLarge,
    MessageDeleted,
    MessageNotFound,
    NotYourMessage,
    TooManyReactions,
)
from messaging.services.annotations import Annotations
from messaging.services.committer import Committer
from messaging.services.history import History

IDEMPOTENCY_KEY = "Idempotency-Key"
_SEQUENCE = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)

SEQUENCE = OpenApiParameter(
    "sequence",
    {"type": "integer", "minimum": 1, "maximum": MAX_SEQUENCE},
    OpenApiParameter.PATH,
    description="The message's place in its chat.",
)
EMOJI = OpenApiParameter(
    "emoji", {"type": "string", "minLength": 1}, OpenApiParameter.PATH, description="One character, as people see them."
)
_FAILURES = (Invalid, ChatNotFound, MessageNotFound, EventLogUnavailable, Overloaded, RateLimited)


def sequence_of(text: str) -> int:
    if not _SEQUENCE.fullmatch(text) or int(text) > MAX_SEQUENCE:
        reason = f"Must be a whole number from 1 to {MAX_SEQUENCE}."
        raise Invalid(f"sequence: {reason}", fields={"sequence": [reason]})
    return int(text)


def _sent(name: str, entry: dict[str, Any]) -> OpenApiResponse:
    return OpenApiResponse(SentAnswer, examples=[OpenApiExample(name, value={**entry, "duplicate": False})])


def _sent_or_unchanged(name: str, entry: dict[str, Any]) -> OpenApiResponse:
    return OpenApiResponse(
        PolymorphicProxySerializer(
            component_name="SentOrUnchanged",
            serializers=[SentAnswer, UnchangedAnswer],
            resource_type_field_name=None,
        ),
        description="The entry; where nothing changes `{duplicate: true, sequence: null, message}`.",
        examples=[
            OpenApiExample(name, value={**entry, "duplicate": False}),
            OpenApiExample("Nothing changed", value=examples.UNCHANGED),
        ],
    )


class ChangingView(ParleyView):
    """Submits drafts that have a target."""

    committer = given(Committer)

    async def change(self, kind: Kind, chat_id: str, sequence: str, *, key: str = "", **fields: Any) -> Response:
        draft = Draft(
            chat_id=ChatId(chat_id),
            sender_id=self.caller.user_id,
            client_message_id=key,
            kind=kind,
            target=sequence_of(sequence),
            traceparent=TRACEPARENT.get(),
            **fields,
        )
        return Response((await self.committer.send(draft)).to_json())


class MessageView(ChangingView):
    """GET, PATCH and DELETE `/api/chats/{chat_id}/messages/{sequence}`."""

    history = given(History)

    @extend_schema(
        operation_id="get_message",
        summary="Read one entry",
        parameters=[SEQUENCE],
        responses={
            200: OpenApiResponse(
                MessageAnswer,
                examples=[
                    OpenApiExample("A message", value=examples.MESSAGE),
                    OpenApiExample("A message that was edited and reacted to", value=examples.CHANGED),
                ],
            ),
            **problems(Invalid, ChatNotFound, MessageNotFound),
        },
    )
    async def get(self, request: Request, chat_id: str, sequence: str) -> Response:
        message = await self.history.get_message(ChatId(chat_id), self.caller.user_id, sequence_of(sequence))
        return Response(message.to_json())

    @extend_schema(
        operation_id="edit_message",
        summary="Edit a message",
        description="Only its author may. Safe to send again with the same `client_message_id`.",
        parameters=[SEQUENCE],
        request=EditBody,
        responses={
            200: _sent("An edit", examples.EDIT),
            **problems(
                *BODY_FAILURES,
                *_FAILURES[1:],
                ClientMessageIdConflict,
                ContentTooLarge,
                MessageDeleted,
                NotYourMessage,
            ),
        },
    )
    async def patch(self, request: Request, chat_id: str, sequence: str) -> Response:
        body = dict(self.validated(EditBody))
        return await self.change(Kind.EDIT, chat_id, sequence, key=body.pop("client_message_id"), **body)

    @extend_schema(
        operation_id="delete_message",
        summary="Delete a message",
        description=(
            "Its author may, and in a group the owner and admins. Content, mentions and reactions are removed; the "
            "place stays. Deleting again answers the first deletion, with `duplicate: true`."
        ),
        parameters=[SEQUENCE, OpenApiParameter(IDEMPOTENCY_KEY, str, OpenApiParameter.HEADER)],
        responses={
            200: _sent("A deletion", examples.DELETION),
            **problems(*_FAILURES, NotYourMessage, ClientMessageIdConflict),
        },
    )
    async def delete(self, request: Request, chat_id: str, sequence: str) -> Response:
        return await self.change(Kind.DELETION, chat_id, sequence, key=request.headers.get(IDEMPOTENCY_KEY, ""))


_REACTED: dict[Any, Any] = {
    200: _sent_or_unchanged("A reaction", examples.REACTION),
    **problems(*_FAILURES, MessageDeleted, TooManyReactions),
}


class ReactionView(ChangingView):
    """PUT and DELETE `/api/chats/{chat_id}/messages/{sequence}/reactions/{emoji}`."""

    @extend_schema(
        operation_id="add_reaction",
        summary="React to a message",
        parameters=[SEQUENCE, EMOJI],
        request=None,
        responses=_REACTED,
    )
    async def put(self, request: Request, chat_id: str, sequence: str, emoji: str) -> Response:
        return await self.change(Kind.REACTION, chat_id, sequence, emoji=emoji, action=Action.ADD)

    @extend_schema(
        operation_id="remove_reaction",
        summary="Take a reaction back",
        parameters=[SEQUENCE, EMOJI],
        responses=_REACTED,
    )
    async def delete(self, request: Request, chat_id: str, sequence: str, emoji: str) -> Response:
        return await self.change(Kind.REACTION, chat_id, sequence, emoji=emoji, action=Action.REMOVE)


class ReactionsView(ParleyView):
    """GET `/api/chats/{chat_id}/messages/{sequence}/reactions`."""

    annotations = given(Annotations)

    @extend_schema(
        operation_id="list_reactions",
        summary="List who reacted",
        description="Your own reactions first, then by emoji and user.",
        parameters=[SEQUENCE, PageQuery],
        responses={200: ReactionPageAnswer, **problems(Malformed, Invalid, ChatNotFound, MessageNotFound)},
    )
    async def get(self, request: Request, chat_id: str, sequence: str) -> Response:
        query = self.validated_query(PageQuery)
        page = await self.annotations.list_reactions(
            ChatId(chat_id),
            self.caller.user_id,
            sequence_of(sequence),
            limit=query["limit"],
            cursor=query.get("cursor"),
        )
        return Response(page.to_json())


_PINNED: dict[Any, Any] = {
    200: _sent_or_unchanged("A pin", examples.PIN),
    **problems(*_FAILURES, MessageDeleted, NotYourMessage),
}


class PinView(ChangingView):
    """PUT and DELETE `/api/chats/{chat_id}/pins/{sequence}`."""

    @extend_schema(
        operation_id="pin_message",
        summary="Pin a message",
        description="The owner and admins may, in a direct chat both. The newest 50 pins are kept.",
        parameters=[SEQUENCE],
        request=None,
        responses=_PINNED,
    )
    async def put(self, request: Request, chat_id: str, sequence: str) -> Response:
        return await self.change(Kind.PIN, chat_id, sequence, action=Action.ADD)

    @extend_schema(operation_id="unpin_message", summary="Unpin a message", parameters=[SEQUENCE], responses=_PINNED)
    async def delete(self, request: Request, chat_id: str, sequence: str) -> Response:
        return await self.change(Kind.PIN, chat_id, sequence, action=Action.REMOVE)


class PinsView(ParleyView):
    """GET `/api/chats/{chat_id}/pins`."""

    annotations = given(Annotations)

    @extend_schema(
        operation_id="list_pins",
        summary="List the pinned messages",
        description="The newest pin first, as they stand, without deleted ones.",
        responses={200: PinsAnswer, **problems(ChatNotFound)},
    )
    async def get(self, request: Request, chat_id: str) -> Response:
        pinned = await self.annotations.list_pins(ChatId(chat_id), self.caller.user_id)
        return Response({"items": [message.to_json() for message in pinned]})
