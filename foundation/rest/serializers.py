"""Base classes of strict request bodies: no unknown fields, no type coercion."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

MAX_PAGE_SIZE = 200
DEFAULT_PAGE_SIZE = 50


class StrictSerializer(serializers.Serializer[Any]):
    """Rejects unknown fields, so that a misspelled field is not ignored."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = sorted(set(map(str, data)) - set(self.fields))
            if unknown:
                raise serializers.ValidationError({name: ["Unknown field."] for name in unknown})
        return super().to_internal_value(data)


class TextField(serializers.CharField):
    """A JSON string. Other types are not coerced, and whitespace is kept."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"trim_whitespace": False, **options})

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise serializers.ValidationError("Must be a string.")
        return str(super().to_internal_value(data))


class SwitchField(serializers.BooleanField):
    """A JSON boolean. Strings and numbers are not coerced."""

    def to_internal_value(self, data: Any) -> bool:
        if type(data) is not bool:
            raise serializers.ValidationError("Must be true or false.")
        return data


class WholeNumberField(serializers.IntegerField):
    """A JSON integer. Strings and booleans are not coerced."""

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            raise serializers.ValidationError("Must be a whole number.")
        return int(super().to_internal_value(data))


class PageQuery(StrictSerializer):
    """The query parameters `limit` and `cursor` of every list."""

    limit = serializers.IntegerField(min_value=1, max_value=MAX_PAGE_SIZE, default=DEFAULT_PAGE_SIZE)
    cursor = TextField(required=False, allow_blank=True)
