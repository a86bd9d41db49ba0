import pytest

from accounts.display_names import LONGEST, checked, default_for
from foundation.kernel.errors import Invalid
from foundation.kernel.ids import UserId


class TestChecked:
    @pytest.mark.parametrize("name", ["Ada", "李雷", "Zoë", "👩‍👩‍👧", "a" * LONGEST, "نور", "O'Brien-Smith 3rd"])
    def test_people_may_call_themselves_what_they_like(self, name: str) -> None:
        assert checked(name) == name

    def test_spaces_around_it_are_dropped_and_accents_composed(self) -> None:
        assert checked("  Zoe\u0308 ") == "Zoë"

    @pytest.mark.parametrize("name", ["", " ", "\t", "a" * (LONGEST + 1), "a\x07", "a\u2028b", "\u202eadmin", "\u200b"])
    def test_what_cannot_be_seen_or_misleads_is_refused(self, name: str) -> None:
        with pytest.raises(Invalid) as refusal:
            checked(name)
        assert list(refusal.value.fields) == ["display_name"]


def test_the_default_tells_users_apart() -> None:
    assert default_for(UserId("user_01KG7Y4QZ8M3T5V6W7X8Y9Z0A1")) == "User Z0A1"
