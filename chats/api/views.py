"""`/api/chats/…`: chats, members, roles, mute."""

import re
from collections.abc import Mapping

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, PolymorphicProxySerializer, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from chats.api import examples
from chats.api.serializers import (
    IDEMPOTENCY_KEY_PATTERN,
    ChangeMembersBody,
    ChangeRoleBody,
    ChatAnswer,
    CreateChatBody,
    MemberAnswer,
    MemberPageAnswer,
    MuteAnswer,
    MuteBody,
    RemovedAnswer,
    RenameChatBody,
)
from chats.domain import ChatDraft, ChatType, Role
from chats.errors import (
    AlreadyAMember,
    ChatNotFound,
    DirectChatIsFixed,
    GroupFull,
    MemberNotFound,
    OwnerMustTransfer,
    RoleTooLow,
)
from chats.services.creation import ChatCreation
from chats.services.details import ChatDetails
from chats.services.members import Members
from foundation.kernel.clock import to_iso
from foundation.kernel.errors import Invalid, Malformed
from foundation.kernel.ids import ChatId, UserId
from foundation.rest.documentation import BODY_FAILURES, problems
from foundation.rest.serializers import PageQuery
from foundation.rest.views import ParleyView, given

IDEMPOTENCY_KEY = "Idempotency-Key"
INVITATIONS = "invitations"
"""The limit of chats created and members added."""


class CreateChatView(ParleyView):
    creation = given(ChatCreation)

    def costs(self, request: Request) -> Mapping[str, int]:
        """Every named member counts, and a chat at least once."""
        members = request.data.get("members") if isinstance(request.data, Mapping) else None
        return {**super().costs(request), INVITATIONS: max(1, len(members) if isinstance(members, list) else 0)}

    @extend_schema(
        operation_id="create_chat",
        tags=["Chats"],
        examples=[examples.GROUP, examples.DIRECT, examples.NEW_CHAT, examples.FOUND_CHAT],
        summary="Create a chat",
        description=(
            "Two users have at most one direct chat: if it exists, it is returned with 200. For a group, an "
            f"`{IDEMPOTENCY_KEY}` makes a retry safe for 24 hours: the same key returns the first chat with 200, "
            "even if the body differs. The request succeeds even while events cannot be published; they follow later."
        ),
        parameters=[
            OpenApiParameter(
                IDEMPOTENCY_KEY,
                {"type": "string", "pattern": IDEMPOTENCY_KEY_PATTERN},
                OpenApiParameter.HEADER,
                description="1 to 128 visible ASCII characters. Applies to groups and is ignored for direct chats.",
            )
        ],
        request=CreateChatBody,
        responses={
            201: OpenApiResponse(ChatAnswer, description="The chat was created."),
            200: OpenApiResponse(ChatAnswer, description="The direct chat, or the chat of this key, already exists."),
            **problems(*BODY_FAILURES, ChatNotFound),
        },
    )
    def post(self, request: Request) -> Response:
        body = self.validated(CreateChatBody)
        members = tuple(UserId(user_id) for user_id in body["members"])
        draft = ChatDraft(type=ChatType(body["type"]), name=body.get("name"), member_ids=members)
        created = self.creation.create(self.caller.user_id, draft, key=self._idempotency_key())
        return Response(created.state.to_json(), status=201 if created.is_new else 200)

    def _idempotency_key(self) -> str | None:
        key = self.request.headers.get(IDEMPOTENCY_KEY)
        if key is None:
            return None
        if not re.fullmatch(IDEMPOTENCY_KEY_PATTERN, key):
            wrong = ["Must be 1 to 128 visible ASCII characters."]
            raise Invalid("The idempotency key is not acceptable", fields={IDEMPOTENCY_KEY: wrong})
        return key


class ChatView(ParleyView):
    details = given(ChatDetails)

    @extend_schema(
        operation_id="get_chat",
        tags=["Chats"],
        examples=[examples.FOUND_CHAT],
        summary="Read a chat",
        description="`last_sequence` is the sequence of the latest entry of the chat's log, 0 if there is none.",
        responses={200: ChatAnswer, **problems(ChatNotFound)},
    )
    def get(self, request: Request, chat_id: str) -> Response:
        return Response(self.details.get(ChatId(chat_id), self.caller.user_id).to_json())

    @extend_schema(
        operation_id="rename_chat",
        tags=["Chats"],
        examples=[examples.NEW_NAME, examples.FOUND_CHAT],
        summary="Rename a group",
        description="Requires the role owner or admin.",
        request=RenameChatBody,
        responses={200: ChatAnswer, **problems(*BODY_FAILURES, ChatNotFound, RoleTooLow, DirectChatIsFixed)},
    )
    def patch(self, request: Request, chat_id: str) -> Response:
        name = self.validated(RenameChatBody)["name"]
        return Response(self.details.rename(ChatId(chat_id), self.caller.user_id, name).to_json())


class MuteView(ParleyView):
    details = given(ChatDetails)

    @extend_schema(
        operation_id="mute_chat",
        tags=["Chats"],
        examples=[examples.MUTE, examples.UNMUTE, examples.MUTED],
        summary="Mute a chat for yourself",
        description="Mutes the chat until the given time, on all your devices. null or a past time unmutes it.",
        request=MuteBody,
        responses={200: MuteAnswer, **problems(*BODY_FAILURES, ChatNotFound)},
    )
    def put(self, request: Request, chat_id: str) -> Response:
        until = self.validated(MuteBody)["muted_until"]
        muted = self.details.mute(ChatId(chat_id), self.caller.user_id, until).muted_until
        return Response({"chat_id": chat_id, "muted_until": None if muted is None else to_iso(muted)})


class MembersView(ParleyView):
    members = given(Members)

    def costs(self, request: Request) -> Mapping[str, int]:
        adds = isinstance(request.data, Mapping) and request.data.get("action") == "add"
        return {**super().costs(request), **({INVITATIONS: 1} if adds else {})}

    @extend_schema(
        operation_id="list_members",
        tags=["Chats"],
        examples=[examples.MEMBERS],
        summary="List the members of a chat",
        description="Members are ordered by user id. A cursor is valid for you and this chat only.",
        parameters=[PageQuery],
        responses={200: MemberPageAnswer, **problems(Malformed, Invalid, ChatNotFound)},
    )
    def get(self, request: Request, chat_id: str) -> Response:
        query = self.validated_query(PageQuery)
        page = self.members.list_members(
            ChatId(chat_id), self.caller.user_id, limit=query["limit"], cursor=query.get("cursor")
        )
        return Response({"items": [member.to_json() for member in page.items], "next_cursor": page.next_cursor})

    @extend_schema(
        operation_id="change_members",
        tags=["Chats"],
        examples=[examples.ADD, examples.REMOVE, examples.MEMBER, examples.REMOVED],
        summary="Add or remove a member",
        description=(
            "The owner and admins add and remove plain members. Only the owner adds or removes admins. To leave the "
            "group, remove yourself."
        ),
        request=ChangeMembersBody,
        responses={
            200: PolymorphicProxySerializer(
                component_name="MembersChanged",
                serializers=[MemberAnswer, RemovedAnswer],
                resource_type_field_name=None,
            ),
            **problems(
                *BODY_FAILURES,
                ChatNotFound,
                MemberNotFound,
                RoleTooLow,
                AlreadyAMember,
                GroupFull,
                OwnerMustTransfer,
                DirectChatIsFixed,
            ),
        },
    )
    def post(self, request: Request, chat_id: str) -> Response:
        body = self.validated(ChangeMembersBody)
        chat, caller_id, user_id = ChatId(chat_id), self.caller.user_id, UserId(body["user_id"])
        if body["action"] == "remove":
            self.members.remove(chat, caller_id, user_id)
            return Response({"user_id": user_id, "removed": True})
        role = Role(body.get("role", Role.MEMBER))
        return Response(self.members.add(chat, caller_id, user_id, role).to_json())


class MemberView(ParleyView):
    members = given(Members)

    @extend_schema(
        operation_id="change_role",
        tags=["Chats"],
        examples=[examples.NEW_ROLE, examples.HAND_OVER, examples.MEMBER],
        summary="Change a member's role",
        description=(
            "Requires the role owner. The role `owner` transfers the ownership: the member becomes the owner and you "
            "become an admin, atomically. There is no other way to change the owner's role."
        ),
        request=ChangeRoleBody,
        responses={
            200: MemberAnswer,
            **problems(*BODY_FAILURES, ChatNotFound, MemberNotFound, RoleTooLow, OwnerMustTransfer, DirectChatIsFixed),
        },
    )
    def patch(self, request: Request, chat_id: str, user_id: str) -> Response:
        role = Role(self.validated(ChangeRoleBody)["role"])
        member = self.members.change_role(ChatId(chat_id), self.caller.user_id, UserId(user_id), role)
        return Response(member.to_json())

    @extend_schema(
        operation_id="remove_member",
        tags=["Chats"],
        summary="Remove a member, or leave",
        description="With your own id, you leave the group. The owner must transfer the ownership first.",
        responses={
            204: OpenApiResponse(description="The user is no longer a member."),
            **problems(ChatNotFound, MemberNotFound, RoleTooLow, OwnerMustTransfer, DirectChatIsFixed),
        },
    )
    def delete(self, request: Request, chat_id: str, user_id: str) -> Response:
        self.members.remove(ChatId(chat_id), self.caller.user_id, UserId(user_id))
        return Response(status=204)
