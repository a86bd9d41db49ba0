"""Base classes of strict request bodies: no unknown fields, no type coercion."""

from collections.abc import Mapping
from heapq import nsmallest
from typing import Any

from rest_framework import serializers

MAX_PAGE_SIZE = 200
DEFAULT_PAGE_SIZE = 50
MAX_NAMED_FIELDS = 20
"""An answer names at most this many unknown fields: a body can hold tens of thousands."""


class StrictSerializer(serializers.Serializer[Any]):
    """Rejects unknown fields, so that a misspelled field is not ignored."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = set(map(str, data)) - set(self.fields)
            if unknown:
                named = nsmallest(MAX_NAMED_FIELDS, unknown)
                raise serializers.ValidationError({name: ["Unknown field."] for name in named})
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


class BoundedListField(serializers.ListField):
    """A list of at most `max_length` elements. Counts them before it looks at any, because each costs time."""

    def __init__(self, *, max_length: int, **options: Any) -> None:
        super().__init__(max_length=max_length, **options)
        self._most = max_length

    def run_child_validation(self, data: Any) -> Any:
        if len(data) > self._most:
            self.fail("max_length", max_length=self._most)
        return super().run_child_validation(data)


class CursorField(TextField):
    """Any text: one that is no cursor is refused as a forged one, whatever its characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.validators = []


class PageQuery(StrictSerializer):
    """The query parameters `limit` and `cursor` of every list."""

    limit = serializers.IntegerField(min_value=1, max_value=MAX_PAGE_SIZE, default=DEFAULT_PAGE_SIZE)
    cursor = CursorField(required=False, allow_blank=True)
