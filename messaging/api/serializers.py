"""The bodies and queries that the message routes accept, and the answers for the schema."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from foundation.rest.serializers import StrictSerializer, TextField
from messaging.domain import CONTENT_TYPES, MAX_CONTENT_BYTES, MAX_PAGE, MAX_SEQUENCE, TEXT


@extend_schema_field({"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"})
class ClientMessageIdField(TextField):
    pass


@extend_schema_field({"type": "string", "minLength": 1, "maxLength": MAX_CONTENT_BYTES})
class ContentField(TextField):
    pass


@extend_schema_field({"type": "string", "enum": list(CONTENT_TYPES)})
class ContentTypeField(TextField):
    pass


class DraftBody(StrictSerializer):
    """Only the kinds of the values are checked here: their limits are the domain's, the same for every edge."""

    client_message_id = ClientMessageIdField(allow_blank=True, help_text="Visible ASCII characters; a UUID is best.")
    content = ContentField(allow_blank=True, help_text="1 to 4,096 bytes of UTF-8, without NUL.")
    content_type = ContentTypeField(default=TEXT, allow_blank=True)


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


class MessageAnswer(serializers.Serializer[Any]):
    message_id = serializers.CharField()
    chat_id = serializers.CharField()
    sequence = serializers.IntegerField(min_value=1)
    sender_id = serializers.CharField()
    client_message_id = serializers.CharField()
    content = serializers.CharField()
    content_type = serializers.ChoiceField(choices=CONTENT_TYPES)
    created_at = serializers.DateTimeField()


class SentAnswer(MessageAnswer):
    duplicate = serializers.BooleanField(help_text="An earlier send of the same id had already stored the message.")


class PageAnswer(serializers.Serializer[Any]):
    messages = MessageAnswer(many=True)
    has_more = serializers.BooleanField()
    latest_sequence = serializers.IntegerField(min_value=0)
