"""`/api/demo/…`: list the demo's people and log in as one. Embedded mode only, and not in the OpenAPI document."""

from django.urls import URLPattern, path
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.serializers import login_body
from demo.data import PEOPLE
from demo.seeder import DemoSeeder
from foundation.rest.serializers import StrictSerializer, TextField
from foundation.rest.throttling import PublicLimits
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
    seeder = given(DemoSeeder)

    def post(self, request: Request) -> Response:
        body = self.validated(DemoLoginBody)
        login = self.seeder.log_in(body["name"], device_id=body["device_id"])
        return Response(login_body(login), headers={"Cache-Control": "no-store"})


def routes(seeder: DemoSeeder, *, public_limits: PublicLimits) -> list[URLPattern]:
    return [
        path("api/demo/people", DemoPeopleView.as_view(public_limits=public_limits)),
        path("api/demo/login", DemoLoginView.as_view(seeder=seeder, public_limits=public_limits)),
    ]
