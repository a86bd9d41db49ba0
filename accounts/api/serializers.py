"""Request and response bodies of accounts."""

from typing import Any

from django.core.validators import RegexValidator
from rest_framework import serializers

from accounts import display_names
from accounts.domain import PublicUser, Session, User
from accounts.services.login import CodeSent, Login
from accounts.services.sessions import TokenPair
from foundation.kernel.clock import to_iso
from foundation.kernel.ids import SessionId
from foundation.rest.serializers import StrictSerializer, SwitchField, TextField


class PhoneNumberField(TextField):
    """Checks the E.164 syntax only. The service checks that the number is possible."""

    def __init__(self, **options: Any) -> None:
        form = RegexValidator(
            r"^\+[1-9][0-9]{6,14}\Z",
            "Must be in E.164 form: a plus sign, country code and digits, such as +14155550123.",
        )
        super().__init__(validators=[form], help_text="A phone number in E.164 form, such as +14155550123.", **options)


class LoginIdField(TextField):
    """The id of a login that `request-code` returned."""

    def __init__(self, **options: Any) -> None:
        form = RegexValidator(r"^[A-Za-z0-9_-]{1,64}\Z", "Must be the `login_id` that `request-code` returned.")
        super().__init__(required=False, validators=[form], **options)


class CodeRequest(StrictSerializer):
    """The phone number to send a code to."""

    phone_number = PhoneNumberField()
    login_id = LoginIdField(help_text="The last `login_id` for this number, to send the code again.")


class CodeAnswer(serializers.Serializer[Any]):
    login_id = serializers.CharField(help_text="Send it with the code.")
    expires_in = serializers.IntegerField(help_text="Seconds until the code expires.")
    resend_after = serializers.IntegerField(help_text="Seconds until another code may be requested.")


class VerifyRequest(StrictSerializer):
    """A login with the code from the SMS."""

    phone_number = PhoneNumberField()
    code = TextField(
        validators=[RegexValidator(r"^[0-9]{6}\Z", "Must be six digits.")], help_text="The six digits from the SMS."
    )
    login_id = LoginIdField(
        help_text="The `login_id` of the code. Attempts without it share one count, which others can use up."
    )
    device_id = TextField(
        validators=[RegexValidator(r"^[ -~]{1,128}\Z", "Must be 1 to 128 printable ASCII characters.")],
        help_text="An id chosen by the client, the same for every login of a device.",
    )
    display_name = TextField(
        required=False,
        max_length=display_names.MAX_LENGTH,
        help_text="The name of a new user, else ignored.",
    )


class RefreshRequest(StrictSerializer):
    """The refresh token to exchange."""

    refresh_token = TextField(max_length=200)


class ProfileChangeRequest(StrictSerializer):
    """What to change, at least one of them."""

    display_name = TextField(required=False, max_length=display_names.MAX_LENGTH)
    read_receipts = SwitchField(required=False, help_text="Whether you show, and see, how far a chat was read.")
    show_presence = SwitchField(required=False, help_text="Whether you show, and see, who is online.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            raise serializers.ValidationError({"display_name": ["This field is required, or another one."]})
        return attrs


class LookupRequest(StrictSerializer):
    """The phone number to look up."""

    phone_number = PhoneNumberField()


class UserAnswer(serializers.Serializer[Any]):
    user_id = serializers.CharField()
    phone_number = serializers.CharField()
    phone_verified = serializers.BooleanField()
    display_name = serializers.CharField()
    read_receipts = serializers.BooleanField()
    show_presence = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class PublicUserAnswer(serializers.Serializer[Any]):
    user_id = serializers.CharField()
    display_name = serializers.CharField()


class TokensAnswer(serializers.Serializer[Any]):
    session_id = serializers.CharField()
    access_token = serializers.CharField(help_text="The token for `Authorization: Bearer`.")
    refresh_token = serializers.CharField(help_text="Works once. Each refresh returns the next one.")
    expires_in = serializers.IntegerField(help_text="Seconds until the access token expires.")


class LoginAnswer(TokensAnswer):
    user = UserAnswer()


class SessionAnswer(serializers.Serializer[Any]):
    session_id = serializers.CharField()
    device_id = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    current = serializers.BooleanField(help_text="Whether this is the session of the request.")


class SessionPage(serializers.Serializer[Any]):
    items = SessionAnswer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


def code_body(sent: CodeSent) -> dict[str, Any]:
    return {"login_id": sent.login_id, "expires_in": sent.expires_in, "resend_after": sent.resend_after}


def user_body(user: User) -> dict[str, Any]:
    return {
        "user_id": user.user_id,
        "phone_number": user.phone_number,
        "phone_verified": user.phone_verified,
        "display_name": user.display_name,
        "read_receipts": user.visibility.read_receipts,
        "show_presence": user.visibility.show_presence,
        "created_at": to_iso(user.created_at),
        "updated_at": to_iso(user.updated_at),
    }


def public_user_body(user: PublicUser) -> dict[str, Any]:
    return {"user_id": user.user_id, "display_name": user.display_name}


def tokens_body(tokens: TokenPair) -> dict[str, Any]:
    return {
        "session_id": tokens.session_id,
        "access_token": tokens.access_token,
        "refresh_token": tokens.refresh_token,
        "expires_in": tokens.expires_in,
    }


def login_body(login: Login) -> dict[str, Any]:
    return {"user": user_body(login.user), **tokens_body(login.tokens)}


def session_body(session: Session, *, current: SessionId) -> dict[str, Any]:
    return {
        "session_id": session.session_id,
        "device_id": session.device_id,
        "created_at": to_iso(session.created_at),
        "expires_at": to_iso(session.expires_at),
        "current": session.session_id == current,
    }
