"""`/api/auth/…`: login codes, login, token refresh, logout."""

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import examples
from accounts.api.serializers import (
    CodeAnswer,
    CodeRequest,
    LoginAnswer,
    RefreshRequest,
    TokensAnswer,
    VerifyRequest,
    code_body,
    login_body,
    tokens_body,
)
from accounts.errors import (
    AccountSuspended,
    InvalidCode,
    InvalidRefreshToken,
    SessionRevoked,
    SmsUnavailable,
    TooManyAttempts,
)
from accounts.services.login import LoginAttempt, PhoneLogin
from accounts.services.sessions import Sessions
from foundation.kernel.errors import RateLimited
from foundation.rest.addresses import ClientAddress
from foundation.rest.documentation import BODY_FAILURES, problems
from foundation.rest.threads import API_THREADS, run_in_thread
from foundation.rest.views import ParleyView, PublicView, given

_NO_STORE = {"Cache-Control": "no-store"}


class RequestCodeView(PublicView):
    login = given(PhoneLogin)
    address_of = given(ClientAddress)

    @extend_schema(
        operation_id="request_code",
        tags=["Login"],
        summary="Send a login code by SMS",
        description=(
            "The response does not reveal whether the number has a user. A code belongs to the `login_id` of its "
            "response; codes that others request for the number do not replace it. To get another code for the same "
            "login, send its `login_id`: two more are allowed, and requests of others do not use them up."
        ),
        request=CodeRequest,
        responses={
            202: OpenApiResponse(CodeAnswer, "The code was sent."),
            **problems(*BODY_FAILURES, RateLimited, SmsUnavailable, public=True),
        },
        examples=[examples.PHONE_NUMBER, examples.CODE_SENT],
    )
    def post(self, request: Request) -> Response:
        body = self.validated(CodeRequest)
        sent = self.login.request_code(
            phone_number=body["phone_number"], address=self.address_of(request), login_id=body.get("login_id")
        )
        return Response(code_body(sent), status=202)


class VerifyView(PublicView):
    login = given(PhoneLogin)
    address_of = given(ClientAddress)

    @extend_schema(
        operation_id="verify_code",
        tags=["Login"],
        summary="Exchange a code for a session",
        description=(
            "The first login of a number creates its user. A code works once and allows five attempts with its "
            "`login_id`. Attempts without one are for the newest code and have five attempts of their own."
        ),
        request=VerifyRequest,
        responses={
            200: OpenApiResponse(LoginAnswer, "The user is logged in."),
            201: OpenApiResponse(LoginAnswer, "The user was created and is logged in."),
            **problems(*BODY_FAILURES, InvalidCode, AccountSuspended, TooManyAttempts, RateLimited, public=True),
        },
        examples=[examples.ATTEMPT, examples.LOGGED_IN],
    )
    def post(self, request: Request) -> Response:
        body = self.validated(VerifyRequest)
        attempt = LoginAttempt(
            phone_number=body["phone_number"],
            code=body["code"],
            device_id=body["device_id"],
            display_name=body.get("display_name"),
            address=self.address_of(request),
            login_id=body.get("login_id"),
        )
        login = self.login.verify(attempt)
        return Response(login_body(login), status=201 if login.is_new_user else 200, headers=_NO_STORE)


class RefreshView(PublicView):
    sessions = given(Sessions)

    @extend_schema(
        operation_id="refresh_tokens",
        tags=["Login"],
        summary="Exchange a refresh token for new tokens",
        description=(
            "A refresh token works once; the response contains the next one. For 60 seconds, a repeated request gets "
            "the same new refresh token, so a lost response or two concurrent requests do no harm. After that, using "
            "an old token ends the session, because the token may have been stolen."
        ),
        request=RefreshRequest,
        responses={
            200: TokensAnswer,
            **problems(*BODY_FAILURES, InvalidRefreshToken, SessionRevoked, AccountSuspended, RateLimited, public=True),
        },
        examples=[examples.REFRESH, examples.REFRESHED],
    )
    async def post(self, request: Request) -> Response:
        refresh_token = self.validated(RefreshRequest)["refresh_token"]
        session_id = self.sessions.session_of(refresh_token)
        if self.public_limits is not None:
            await self.public_limits.take_refresh(session_id)
        tokens = await run_in_thread(API_THREADS, self.sessions.refresh, refresh_token)
        return Response(tokens_body(tokens), headers=_NO_STORE)


class LogoutView(ParleyView):
    sessions = given(Sessions)

    @extend_schema(
        operation_id="log_out",
        tags=["Login"],
        summary="End this session",
        description="Within a few seconds, its tokens are rejected and its WebSockets are closed.",
        request=None,
        responses={204: None, **problems()},
    )
    def post(self, request: Request) -> Response:
        self.sessions.log_out(self.caller)
        return Response(status=204)
