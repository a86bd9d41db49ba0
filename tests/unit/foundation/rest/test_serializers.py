"""Bodies made to cost time: their validation ends early and its answer is short."""

from typing import Any

import pytest
from rest_framework import serializers

from chats.api.serializers import CreateChatBody
from delivery.api.presence import PresenceQuery
from foundation.rest.serializers import MAX_NAMED_FIELDS, BoundedListField, StrictSerializer, TextField
from messaging.api.serializers import DraftBody, EditBody

MANY = 1_001


def errors_of(serializer: type[serializers.Serializer[Any]], data: object) -> dict[str, Any]:
    checked = serializer(data=data)
    assert not checked.is_valid()
    return dict(checked.errors)


class CountingField(TextField):
    checked = 0

    def to_internal_value(self, data: Any) -> str:
        self.checked += 1
        return super().to_internal_value(data)


class TestLists:
    @pytest.mark.parametrize(
        ("body", "name"),
        [(CreateChatBody, "members"), (DraftBody, "mentions"), (EditBody, "mentions"), (PresenceQuery, "user_id")],
    )
    def test_one_that_is_too_long_is_one_error(self, body: type[serializers.Serializer[Any]], name: str) -> None:
        assert len(errors_of(body, {name: [1] * MANY})[name]) == 1

    def test_the_elements_of_one_that_is_too_long_are_not_looked_at(self) -> None:
        field = BoundedListField(child=CountingField(), max_length=2)
        with pytest.raises(serializers.ValidationError):
            field.run_validation(["a"] * 3)
        assert isinstance(field.child, CountingField)
        assert field.child.checked == 0
        assert field.run_validation(["a"] * 2) == ["a", "a"]


class TestUnknownFields:
    def test_some_of_many_are_named(self) -> None:
        errors = errors_of(StrictSerializer, {f"field-{number:04}": 1 for number in range(MANY)})
        assert sorted(errors) == [f"field-{number:04}" for number in range(MAX_NAMED_FIELDS)]
