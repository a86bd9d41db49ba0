"""Validation of phone numbers."""

import re

import phonenumbers

from foundation.kernel.errors import Invalid

_E164 = re.compile(r"\+[1-9][0-9]{6,14}")


def normalize(text: str) -> str:
    """Return the one E.164 form of a number, without a national trunk zero. Raises `Invalid`.

    Accepts a plus sign and ASCII digits. The country code and the length must be possible; the number need not be
    assigned, because numbering plans change faster than the library. The error never contains the number.
    """
    if not _E164.fullmatch(text):
        raise _invalid("Must be in E.164 form: a plus sign, country code and digits, such as +14155550123.")
    try:
        number = phonenumbers.parse(text, None)
    except phonenumbers.NumberParseException as error:
        raise _invalid("No country has such numbers.") from error
    if not phonenumbers.is_possible_number(number):
        raise _invalid("Too long or too short for its country.")
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def country_code(number: str) -> int:
    """The country calling code of a normalized number."""
    return int(phonenumbers.parse(number, None).country_code or 0)


def _invalid(message: str) -> Invalid:
    return Invalid("The phone number is not acceptable", fields={"phone_number": [message]})
