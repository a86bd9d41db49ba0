"""`/`: the page of the web client, with a strict Content-Security-Policy."""

from collections.abc import Mapping
from pathlib import Path

from django.http import HttpRequest, HttpResponse

from foundation.rest.plain import PlainView

DIRECTIVES = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    # In browsers with Trusted Types, scripts cannot turn text into markup.
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}


def policy(directives: Mapping[str, str]) -> str:
    """The value of the header `Content-Security-Policy`."""
    return "; ".join(f"{name} {value}" for name, value in directives.items())


POLICY = policy(DIRECTIVES)


class PageView(PlainView):
    """Serves `page`. `embedded` enables the features of the embedded mode, such as the demo."""

    page = Path()
    embedded = False

    def get(self, request: HttpRequest) -> HttpResponse:
        mode = "embedded" if self.embedded else "production"
        response = HttpResponse(self.page.read_text().replace("{{ mode }}", mode))
        response["Content-Security-Policy"] = POLICY
        response["Referrer-Policy"] = "no-referrer"
        response["Cache-Control"] = "no-cache"
        return response
