"""`/api/demo/…`: the demo's people, and being one of them. Routed in embedded mode only, and in no document."""

from django.urls import URLPattern, path
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.serializers import login_body
from demo.script import PEOPLE
from demo.stage import Stage
from foundation.rest.serializers import StrictSerializer, TextField
from foundation.rest.views import PublicView, given


class DemoLoginBody(StrictSerializer):
    name = TextField(max_length=100)
    device_id = TextField(max_length=128)


@extend_schema(exclude=True)
class DemoPeopleView(PublicView):
    def get(self, request: Request) -> Response:
        return Response({"people": list(PEOPLE)})


@extend_schema(exclude=True)
class DemoLoginView(PublicView):
    stage: Stage = given(Stage)

    def post(self, request: Request) -> Response:
        body = self.validated(DemoLoginBody)
        login = self.stage.log_in(body["name"], device_id=body["device_id"])
        return Response(login_body(login), headers={"Cache-Control": "no-store"})


def routes(stage: Stage) -> list[URLPattern]:
    return [
        path("api/demo/people", DemoPeopleView.as_view()),
        path("api/demo/login", DemoLoginView.as_view(stage=stage)),
    ]
