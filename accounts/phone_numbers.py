"""Phone numbers: E.164 in, one canonical form out."""

import re

import phonenumbers

from foundation.kernel.errors import Invalid

_E164 = re.compile(r"\+[1-9][0-9]{6,14}")


def canonical(text: str) -> str:
    """The number as E.164. Raises `Invalid` for what cannot be a number; the refusal never repeats the number.

    Only ASCII digits behind a plus sign are read. A number must be possible (country code and length), not assigned:
    numbering plans grow faster than libraries learn of it. Variants of one number, such as those that keep a national
    trunk zero, come out as the same text.
    """
    if not _E164.fullmatch(text):
        raise _refusal("Must be in E.164 form: a plus sign, country code and digits, such as +14155550123.")
    try:
        number = phonenumbers.parse(text, None)
    except phonenumbers.NumberParseException as error:
        raise _refusal("No country has such numbers.") from error
    if not phonenumbers.is_possible_number(number):
        raise _refusal("Too long or too short for its country.")
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def _refusal(message: str) -> Invalid:
    return Invalid("The phone number is not acceptable", fields={"phone_number": [message]})
