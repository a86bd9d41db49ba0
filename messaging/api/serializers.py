"""The bodies and queries that the message routes accept, and the answers for the schema."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from foundation.rest.serializers import BoundedListField, StrictSerializer, TextField, WholeNumberField
from messaging.domain import CONTENT_TYPES, MAX_CONTENT_BYTES, MAX_MENTIONS, MAX_PAGE, MAX_SEQUENCE, TEXT, Action, Kind


@extend_schema_field({"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"})
class ClientMessageIdField(TextField):
    pass


@extend_schema_field({"type": "string", "minLength": 1, "maxLength": MAX_CONTENT_BYTES})
class ContentField(TextField):
    pass


@extend_schema_field({"type": "string", "enum": list(CONTENT_TYPES)})
class ContentTypeField(TextField):
    pass


@extend_schema_field({"type": "array", "items": {"type": "string"}, "maxItems": MAX_MENTIONS})
class MentionsField(BoundedListField):
    """User ids. That they are members is not checked."""

    def __init__(self, **options: Any) -> None:
        super().__init__(child=TextField(), max_length=MAX_MENTIONS, **options)

    def to_internal_value(self, data: Any) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(super().to_internal_value(data))


class AttachmentsField(BoundedListField):
    """None yet: an empty list says the same as no list."""

    def __init__(self, **options: Any) -> None:
        most = {"max_length": "This server takes no attachments yet."}
        super().__init__(child=TextField(), max_length=0, error_messages=most, **options)


class DraftBody(StrictSerializer):
    """Only the kinds of the values are checked here: their limits are the domain's, the same for every edge."""

    client_message_id = ClientMessageIdField(allow_blank=True, help_text="Visible ASCII characters; a UUID is best.")
    content = ContentField(allow_blank=True, help_text="1 to 4,096 bytes of UTF-8, without NUL.")
    content_type = ContentTypeField(default=TEXT, allow_blank=True)
    reply_to = WholeNumberField(
        required=False, min_value=1, max_value=MAX_SEQUENCE, help_text="The sequence of the message this answers."
    )
    mentions = MentionsField(required=False)
    attachments = AttachmentsField(required=False, help_text="Not taken yet: only an empty list.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs.pop("attachments", None)
        return attrs


class EditBody(StrictSerializer):
    client_message_id = ClientMessageIdField(allow_blank=True, help_text="Visible ASCII characters; a UUID is best.")
    content = ContentField(allow_blank=True, help_text="1 to 4,096 bytes of UTF-8, without NUL.")
    mentions = MentionsField(required=False)


class WindowQuery(StrictSerializer):
    after_sequence = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_SEQUENCE, help_text="What follows this sequence, oldest first."
    )
    before_sequence = serializers.IntegerField(
        required=False, min_value=1, max_value=MAX_SEQUENCE, help_text="What precedes this sequence, newest first."
    )
    limit = serializers.IntegerField(min_value=1, max_value=MAX_PAGE, default=MAX_PAGE)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "after_sequence" in attrs and "before_sequence" in attrs:
            raise serializers.ValidationError({"before_sequence": "Give after_sequence or before_sequence, not both."})
        return attrs


class ShownReaction(serializers.Serializer[Any]):
    emoji = serializers.CharField()
    count = serializers.IntegerField(min_value=1)
    user_ids = serializers.ListField(child=serializers.CharField(), help_text="The first 20, sorted.")


class MessageAnswer(serializers.Serializer[Any]):
    """An entry of a chat's log. Absent fields mean none."""

    message_id = serializers.CharField()
    chat_id = serializers.CharField()
    sequence = serializers.IntegerField(min_value=1)
    sender_id = serializers.CharField()
    client_message_id = serializers.CharField()
    kind = serializers.ChoiceField(choices=[str(kind) for kind in Kind])
    content = serializers.CharField(allow_blank=True)
    content_type = serializers.ChoiceField(choices=CONTENT_TYPES)
    created_at = serializers.DateTimeField()
    reply_to = serializers.IntegerField(required=False, min_value=1, help_text="Messages: the sequence answered.")
    mentions = serializers.ListField(child=serializers.CharField(), required=False)
    edited_at = serializers.DateTimeField(required=False)
    deleted_at = serializers.DateTimeField(required=False)
    last_change = serializers.IntegerField(
        required=False, min_value=1, help_text="The sequence of the last entry that changed the message."
    )
    reactions = ShownReaction(many=True, required=False)
    target = serializers.IntegerField(required=False, min_value=1, help_text="The sequence that the entry changes.")
    emoji = serializers.CharField(required=False)
    action = serializers.ChoiceField(choices=[str(action) for action in Action], required=False)
    notice = serializers.DictField(required=False, help_text="`type`, and what it tells.")


class SentAnswer(MessageAnswer):
    duplicate = serializers.BooleanField(help_text="An earlier send of the same id had already stored the message.")


class UnchangedAnswer(serializers.Serializer[Any]):
    """There was nothing to change: no entry was made. `message` is the target as it stands."""

    duplicate = serializers.BooleanField()
    sequence = serializers.IntegerField(allow_null=True, help_text="Always null.")
    message = MessageAnswer()


class ReactionAnswer(serializers.Serializer[Any]):
    emoji = serializers.CharField()
    user_id = serializers.CharField()


class ReactionPageAnswer(serializers.Serializer[Any]):
    items = ReactionAnswer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class PinsAnswer(serializers.Serializer[Any]):
    items = MessageAnswer(many=True)


class PageAnswer(serializers.Serializer[Any]):
    messages = MessageAnswer(many=True)
    has_more = serializers.BooleanField()
    latest_sequence = serializers.IntegerField(min_value=0)
