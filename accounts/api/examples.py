"""Example bodies for the OpenAPI document."""

from drf_spectacular.utils import OpenApiExample

_USER = {"user_id": "user_01KG7Y4QZ8M3T5V6W7X8Y9Z0A1", "display_name": "Ada"}
_OWN = {
    **_USER,
    "phone_number": "+14155550123",
    "phone_verified": True,
    "read_receipts": True,
    "show_presence": True,
    "created_at": "2026-01-30T14:30:00.000Z",
    "updated_at": "2026-01-30T14:30:00.000Z",
}
_TOKENS = {
    "session_id": "sess_01KG7Y4QZ9B2C3D4E5F6G7H8J9",
    "access_token": "eyJhbGciOiJIUzI1NiIsImtpZCI6ImxvY2FsIn0.…",
    "refresh_token": "sess_01KG7Y4QZ9B2C3D4E5F6G7H8J9.…",
    "expires_in": 900,
}
_SESSION = {
    "session_id": "sess_01KG7Y4QZ9B2C3D4E5F6G7H8J9",
    "device_id": "laptop",
    "created_at": "2026-01-30T14:30:00.000Z",
    "expires_at": "2026-03-01T14:30:00.000Z",
    "current": True,
}

PHONE_NUMBER = OpenApiExample("A number", {"phone_number": "+14155550123"}, request_only=True)
_LOGIN_ID = "login_Zp3vJt0hQ8mXw5sK2cRdYb1n"
CODE_SENT = OpenApiExample(
    "Sent",
    {"login_id": _LOGIN_ID, "expires_in": 300, "resend_after": 30},
    response_only=True,
    status_codes=["202"],
)
ATTEMPT = OpenApiExample(
    "First login",
    {
        "phone_number": "+14155550123",
        "code": "123456",
        "login_id": _LOGIN_ID,
        "device_id": "laptop",
        "display_name": "Ada",
    },
    request_only=True,
)
LOGGED_IN = OpenApiExample("Logged in", {"user": _OWN, **_TOKENS}, response_only=True, status_codes=["200", "201"])
REFRESH = OpenApiExample("A token", {"refresh_token": _TOKENS["refresh_token"]}, request_only=True)
REFRESHED = OpenApiExample("Refreshed", _TOKENS, response_only=True, status_codes=["200"])
SESSIONS = OpenApiExample(
    "One device", {"items": [_SESSION], "next_cursor": None}, response_only=True, status_codes=["200"]
)
OWN_USER = OpenApiExample("Oneself", _OWN, response_only=True, status_codes=["200"])
NEW_NAME = OpenApiExample("A new name", {"display_name": "Ada L."}, request_only=True)
NEW_PRIVACY = OpenApiExample("Hidden", {"read_receipts": False, "show_presence": False}, request_only=True)
PUBLIC_USER = OpenApiExample("A user", _USER, response_only=True, status_codes=["200"])
