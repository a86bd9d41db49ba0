import pytest

from accounts.phone_numbers import normalize
from foundation.kernel.errors import Invalid

EXAMPLE = "+14155550123"


class TestNormalize:
    @pytest.mark.parametrize(
        "number", ["+14155550123", "+15550001111", "+447911123456", "+390612345678", "+4915112345678"]
    )
    def test_a_possible_number_stays_as_it_is(self, number: str) -> None:
        assert normalize(number) == number

    def test_a_national_trunk_zero_is_dropped(self) -> None:
        assert normalize("+4407911123456") == "+447911123456"

    @pytest.mark.parametrize(
        "text",
        ["", "+", "+12", "4155550123", "+1415555012", "+99912345678", "+1 4155550123", "+１４１５５５５０１２３"],
    )
    def test_what_cannot_be_a_number_is_refused_without_repeating_it(self, text: str) -> None:
        with pytest.raises(Invalid) as refusal:
            normalize(text)
        assert list(refusal.value.fields) == ["phone_number"]
        said = f"{refusal.value.detail} {refusal.value.fields}".replace(EXAMPLE, "")
        assert not text.strip("+") or text not in said
