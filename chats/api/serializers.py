"""Request and response bodies of chats."""

from datetime import UTC, datetime
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from chats.domain import MAX_MEMBERS, MAX_NAME_LENGTH, ChatType, Role
from foundation.kernel import names
from foundation.kernel.clock import from_iso
from foundation.kernel.ids import is_user_id
from foundation.rest.serializers import BoundedListField, StrictSerializer, TextField

USER_ID_PATTERN = "^user_[0-7][0-9A-HJKMNP-TV-Z]{25}$"
_NOT_IN_NAMES = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
NAME_PATTERN = f"^[^{_NOT_IN_NAMES}]*[^\\s{_NOT_IN_NAMES}][^{_NOT_IN_NAMES}]*$"
IDEMPOTENCY_KEY_PATTERN = "^[!-~]{1,128}$"


@extend_schema_field({"type": "string", "pattern": USER_ID_PATTERN, "example": "user_01HQX4Z9V7JY3W8K2M5N6P0R1S"})
class UserIdField(TextField):
    """A user's id."""

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        if not is_user_id(text):
            raise serializers.ValidationError("Not a user id.")
        return text


@extend_schema_field(
    {"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH, "pattern": NAME_PATTERN, "example": "Project Team"}
)
class NameField(TextField):
    """A group's name: 1 to 100 characters on one line, not blank. Surrounding spaces are removed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"max_length": MAX_NAME_LENGTH, **options})

    def to_internal_value(self, data: Any) -> str:
        try:
            return names.normalize(super().to_internal_value(data), max_length=MAX_NAME_LENGTH)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error


@extend_schema_field(OpenApiTypes.DATETIME)
class TimestampField(serializers.Field[datetime, Any, str, Any]):
    """An ISO 8601 time with an offset."""

    def to_internal_value(self, data: Any) -> datetime:
        if not isinstance(data, str):
            raise serializers.ValidationError("Must be a string.")
        try:
            return from_iso(data)
        except ValueError as error:
            raise serializers.ValidationError("Must be an ISO 8601 time with an offset.") from error
        except OverflowError:
            # The offset moves a valid time beyond the range of `datetime`.
            return datetime.max.replace(tzinfo=UTC) if data.startswith("9") else datetime.min.replace(tzinfo=UTC)


class CreateChatBody(StrictSerializer):
    """A chat to create."""

    type = serializers.ChoiceField(choices=[str(kind) for kind in ChatType])
    name = NameField(required=False, allow_null=True, help_text="The name of a group. A direct chat has no name.")
    members = BoundedListField(
        child=UserIdField(),
        max_length=MAX_MEMBERS,
        help_text="The other members. You are always a member. A direct chat has exactly one other member.",
    )


class RenameChatBody(StrictSerializer):
    """A group's new name."""

    name = NameField()


class ChangeMembersBody(StrictSerializer):
    """A member to add or to remove. `role` is allowed with `add` only."""

    user_id = UserIdField()
    action = serializers.ChoiceField(choices=["add", "remove"])
    role = serializers.ChoiceField(choices=[str(Role.ADMIN), str(Role.MEMBER)], required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["action"] == "remove" and "role" in attrs:
            raise serializers.ValidationError({"role": ["Only together with the action `add`."]})
        return attrs


class ChangeRoleBody(StrictSerializer):
    """A member's new role."""

    role = serializers.ChoiceField(
        choices=[str(role) for role in Role], help_text="`owner` transfers the ownership and makes you an admin."
    )


class MuteBody(StrictSerializer):
    """Until when to mute a chat."""

    muted_until = TimestampField(allow_null=True, help_text="When the mute ends. null or a past time unmutes.")


class ChatAnswer(serializers.Serializer[Any]):
    chat_id = serializers.CharField()
    type = serializers.ChoiceField(choices=[str(kind) for kind in ChatType])
    name = serializers.CharField(allow_null=True)
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    last_sequence = serializers.IntegerField()


class MemberAnswer(serializers.Serializer[Any]):
    user_id = serializers.CharField()
    display_name = serializers.CharField()
    role = serializers.ChoiceField(choices=[str(role) for role in Role])
    joined_at = serializers.DateTimeField()


class MemberPageAnswer(serializers.Serializer[Any]):
    items = MemberAnswer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class RemovedAnswer(serializers.Serializer[Any]):
    user_id = serializers.CharField()
    removed = serializers.BooleanField()


class MuteAnswer(serializers.Serializer[Any]):
    chat_id = serializers.CharField()
    muted_until = serializers.DateTimeField(allow_null=True)
