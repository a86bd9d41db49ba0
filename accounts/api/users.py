"""`/api/users/…`: the caller's profile, public profiles, lookup by phone number."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import examples
from accounts.api.serializers import (
    LookupRequest,
    ProfileChangeRequest,
    PublicUserAnswer,
    UserAnswer,
    public_user_body,
    user_body,
)
from accounts.domain import ProfileChange
from accounts.errors import UserNotFound
from accounts.services.profiles import Profiles
from foundation.kernel.errors import RateLimited
from foundation.kernel.ids import UserId
from foundation.rest.documentation import BODY_FAILURES, problems
from foundation.rest.views import ParleyView, given


class OwnUserView(ParleyView):
    profiles = given(Profiles)

    @extend_schema(
        operation_id="get_own_user",
        tags=["Users"],
        summary="Read your own profile",
        description="Your own profile contains your phone number.",
        responses={200: UserAnswer, **problems(UserNotFound, RateLimited)},
        examples=[examples.OWN_USER],
    )
    async def get(self, request: Request) -> Response:
        return Response(user_body(await self.profiles.get_own(self.caller)))

    @extend_schema(
        operation_id="change_own_user",
        tags=["Users"],
        summary="Change your display name and privacy settings",
        description=(
            "The name is shown to other users, without surrounding spaces. Who switches `read_receipts` or "
            "`show_presence` off neither shows nor sees read marks, or who is online. Fields left out stay as they are."
        ),
        request=ProfileChangeRequest,
        responses={200: UserAnswer, **problems(*BODY_FAILURES, UserNotFound, RateLimited)},
        examples=[examples.NEW_NAME, examples.NEW_PRIVACY, examples.OWN_USER],
    )
    def patch(self, request: Request) -> Response:
        change = ProfileChange(**self.validated(ProfileChangeRequest))
        return Response(user_body(self.profiles.change(self.caller, change)))


class UserView(ParleyView):
    profiles = given(Profiles)

    @extend_schema(
        operation_id="get_user",
        tags=["Users"],
        summary="Read another user's public profile",
        description="The public profile does not contain the phone number.",
        responses={200: PublicUserAnswer, **problems(UserNotFound, RateLimited)},
        examples=[examples.PUBLIC_USER],
    )
    async def get(self, request: Request, user_id: str) -> Response:
        return Response(public_user_body(await self.profiles.get_public(UserId(user_id))))


class LookupView(ParleyView):
    profiles = given(Profiles)

    @extend_schema(
        operation_id="look_up_user",
        tags=["Users"],
        summary="Find a user by phone number",
        description="Limited to a burst of 60 and to 60 per hour. Every lookup counts, whether it succeeds or not.",
        request=LookupRequest,
        responses={200: PublicUserAnswer, **problems(*BODY_FAILURES, UserNotFound, RateLimited)},
        examples=[examples.PHONE_NUMBER, examples.PUBLIC_USER],
    )
    def post(self, request: Request) -> Response:
        user = self.profiles.look_up(self.caller, self.validated(LookupRequest)["phone_number"])
        return Response(public_user_body(user))
