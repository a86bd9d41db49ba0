"""`/`: the web client's one page. What it may load and run is said by a strict Content-Security-Policy."""

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
    # Where browsers know trusted types, no text can become markup, whatever a script does.
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
POLICY = "; ".join(f"{name} {value}" for name, value in DIRECTIVES.items())


class PageView(PlainView):
    """Serves `page`. `embedded` tells it whether to offer what only a run on a laptop has."""

    page = Path()
    embedded = False

    def get(self, request: HttpRequest) -> HttpResponse:
        mode = "embedded" if self.embedded else "production"
        response = HttpResponse(self.page.read_text().replace("{{ mode }}", mode))
        response["Content-Security-Policy"] = POLICY
        response["Referrer-Policy"] = "no-referrer"
        response["Cache-Control"] = "no-cache"
        return response
