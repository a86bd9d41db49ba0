import pytest

from accounts.display_names import MAX_LENGTH, default_for, normalize
from foundation.kernel.errors import Invalid
from foundation.kernel.ids import UserId


class TestNormalize:
    @pytest.mark.parametrize("name", ["Ada", "李雷", "Zoë", "👩‍👩‍👧", "a" * MAX_LENGTH, "نور", "O'Brien-Smith 3rd"])
    def test_people_may_call_themselves_what_they_like(self, name: str) -> None:
        assert normalize(name) == name

    def test_spaces_around_it_are_dropped_and_accents_composed(self) -> None:
        assert normalize("  Zoe\u0308 ") == "Zoë"

    @pytest.mark.parametrize(
        "name", ["", " ", "\t", "a" * (MAX_LENGTH + 1), "a\x07", "a\u2028b", "\u202eadmin", "\u200b"]
    )
    def test_what_cannot_be_seen_or_misleads_is_refused(self, name: str) -> None:
        with pytest.raises(Invalid) as refusal:
            normalize(name)
        assert list(refusal.value.fields) == ["display_name"]


def test_the_default_tells_users_apart() -> None:
    assert default_for(UserId("user_01KG7Y4QZ8M3T5V6W7X8Y9Z0A1")) == "User Z0A1"
