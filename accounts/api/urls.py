"""The routes of accounts."""

from django.urls import URLPattern, path

from accounts.api.auth import LogoutView, RefreshView, RequestCodeView, VerifyView
from accounts.api.sessions import SessionsView, SessionView
from accounts.api.users import LookupView, OwnUserView, UserView
from accounts.parts import Accounts
from foundation.kernel.cursors import CursorCodec
from foundation.rest.addresses import ClientAddress
from foundation.rest.throttling import PublicLimits, UserLimits


def routes(
    accounts: Accounts,
    *,
    cursors: CursorCodec,
    address_of: ClientAddress,
    limits: UserLimits | None = None,
    public_limits: PublicLimits | None = None,
) -> list[URLPattern]:
    callers = {"verify": accounts.verifier.verify, "limits": limits}
    login = {"login": accounts.login, "address_of": address_of, "public_limits": public_limits}
    sessions = {"sessions": accounts.sessions, **callers}
    profiles = {"profiles": accounts.profiles, **callers}
    return [
        path("api/auth/request-code", RequestCodeView.as_view(**login)),
        path("api/auth/verify", VerifyView.as_view(**login)),
        path("api/auth/refresh", RefreshView.as_view(sessions=accounts.sessions, public_limits=public_limits)),
        path("api/auth/logout", LogoutView.as_view(**sessions)),
        path("api/sessions", SessionsView.as_view(cursors=cursors, **sessions)),
        path("api/sessions/<str:session_id>", SessionView.as_view(**sessions)),
        path("api/users/me", OwnUserView.as_view(**profiles)),
        path("api/users/lookup", LookupView.as_view(**profiles)),
        path("api/users/<str:user_id>", UserView.as_view(**profiles)),
    ]
