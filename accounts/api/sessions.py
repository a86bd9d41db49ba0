"""`/api/sessions`: the caller's sessions."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import examples
from accounts.api.serializers import SessionPage, session_body
from accounts.errors import SessionNotFound
from accounts.services.sessions import Sessions
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.errors import Invalid, Malformed, RateLimited
from foundation.kernel.ids import SessionId
from foundation.rest.documentation import problems
from foundation.rest.serializers import PageQuery
from foundation.rest.views import ParleyView, given

CURSOR_SCOPE = "sessions"


class SessionsView(ParleyView):
    sessions = given(Sessions)
    cursors = given(CursorCodec)

    @extend_schema(
        operation_id="list_sessions",
        tags=["Sessions"],
        summary="List your sessions",
        description="Lists the active sessions of all your devices.",
        parameters=[PageQuery],
        responses={200: SessionPage, **problems(Malformed, Invalid, RateLimited)},
        examples=[examples.SESSIONS],
    )
    def get(self, request: Request) -> Response:
        query = self.validated_query(PageQuery)
        sessions, following = self.sessions.list_sessions(
            self.caller.user_id, limit=query["limit"], after=self._position(query.get("cursor"))
        )
        items = [session_body(session, current=self.caller.session_id) for session in sessions]
        return Response({"items": items, "next_cursor": self._cursor(following)})

    @extend_schema(
        operation_id="revoke_other_sessions",
        tags=["Sessions"],
        summary="End all your other sessions",
        description="Ends all your sessions except the one of the request.",
        responses={204: None, **problems(RateLimited)},
    )
    def delete(self, request: Request) -> Response:
        self.sessions.revoke_all(self.caller.user_id, but=self.caller.session_id)
        return Response(status=204)

    def _position(self, cursor: str | None) -> SessionId | None:
        if cursor is None:
            return None
        return SessionId(str(self.cursors.decode(cursor, scope=CURSOR_SCOPE, owner=self.caller.user_id)["session_id"]))

    def _cursor(self, following: SessionId | None) -> str | None:
        if following is None:
            return None
        return self.cursors.encode({"session_id": following}, scope=CURSOR_SCOPE, owner=self.caller.user_id)


class SessionView(ParleyView):
    sessions = given(Sessions)

    @extend_schema(
        operation_id="revoke_session",
        tags=["Sessions"],
        summary="End one of your sessions",
        description="Within a few seconds, its tokens are rejected and its WebSockets are closed.",
        responses={204: None, **problems(SessionNotFound)},
    )
    def delete(self, request: Request, session_id: str) -> Response:
        self.sessions.revoke(self.caller.user_id, SessionId(session_id))
        return Response(status=204)
